"""The tokenizers of the advanced labs: what is in them, and what labs are given of them."""

import importlib.util
import os
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from labkit.running.source import Given, load_given

FOLDER = Path(__file__).parents[1] / "phase-16-serving-apis-and-parsers/tokenizers"
NAMES = ["byte_level", "byte_fallback"]
SHAKING = "\U0001fae8"
CONTINUATIONS = bytes(range(0x80, 0xC0))
ROUNDS = 20_000 if os.environ.get("SOAK") else 300


def module(files=None):
    files = files or {f"{name}.json": (FOLDER / f"{name}.json").read_bytes() for name in NAMES}
    program = FOLDER / "given.py"
    source = program.read_bytes()
    return load_given(Given((), ((program.name, str(program), source),), files), "given_here")


@pytest.fixture(scope="module")
def given():
    return module()


@pytest.fixture(scope="module")
def library():
    return {name: Tokenizer.from_file(str(FOLDER / f"{name}.json")) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_training_again_gives_the_same_bytes(name):
    spec = importlib.util.spec_from_file_location("train", FOLDER / "train.py")
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    assert train.TRAINED[name]().to_str() + "\n" == (FOLDER / f"{name}.json").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_small_and_real(name, given, library):
    assert (FOLDER / f"{name}.json").stat().st_size < 200_000
    assert 2_000 < library[name].get_vocab_size() < 5_000
    for text in ("Hello, world!", "你好 🚀 naïve", "नमस्ते\n\tdef f(): return 1", " two  spaces "):
        ids = library[name].encode(text, add_special_tokens=False).ids
        assert given.tokenizer(name).decode(ids) == text


def test_a_shaking_face_is_several_tokens_and_a_space_is_one(given, library):
    for name in NAMES:
        reader, tokenizer = given.reader(name), library[name]
        face = tokenizer.encode(SHAKING, add_special_tokens=False).ids
        cut = [id for id in face if not is_utf8(reader.bytes_of(id))]
        assert len(cut) >= 3
        assert b"".join(map(reader.bytes_of, cut)) == SHAKING.encode()
        assert len(reader.ids_of[b" "]) >= 1


def test_a_character_is_two_tokens_in_one_place_and_one_in_another(given, library):
    def spelled(text):
        ids = library["byte_level"].encode(text).ids
        return [given.reader("byte_level").bytes_of(id) for id in ids]

    assert spelled("你") == ["你".encode()]
    assert spelled("你一") == [b"\xe4\xbd", b"\xa0" + "一".encode()]


def test_a_token_ends_one_character_and_begins_the_next(given):
    reader = given.reader("byte_level")
    tokens = map(reader.bytes_of, range(len(reader.vocabulary)))
    ends = [token for token in tokens if token and 0x80 <= token[0] < 0xC0]
    assert any(is_utf8(token.lstrip(CONTINUATIONS)) is False for token in ends)


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_the_reader_decodes_as_the_library_does(name, given, library):
    draw = random.Random(0)
    reader, handle = given.reader(name), given.tokenizer(name)
    size = len(reader.vocabulary)
    single = [id for id in range(size) if len(reader.bytes_of(id)) == 1]
    spaces = reader.ids_of[b" "]
    pools = [range(size), single, [*single, *reader.special, *spaces], [*spaces, 300, 2_900]]
    for _ in range(ROUNDS):
        ids = draw.choices(draw.choice(pools), k=draw.randint(0, 12))
        expected = library[name].decode(ids, skip_special_tokens=False)
        assert reader.decode(ids) == handle.decode(ids) == expected
    assert reader.decode([-1, size, 10**9]) == handle.decode([-1, size, 10**9]) == ""


@pytest.mark.parametrize("name", NAMES)
def test_any_spelling_of_a_text_decodes_to_it(name, given):
    draw, reader = random.Random(1), given.reader(name)
    for text in ("Hello, 你好 🚀 नमस्ते!", " a  b\n", "the \ufffd", "é" * 20, SHAKING):
        spellings = {tuple(reader.spell(text, draw)) for _ in range(20)}
        assert len(spellings) > 1
        assert {reader.decode(ids) for ids in spellings} == {text}


def test_a_handle_counts_what_it_decodes(given):
    first, second = given.tokenizer("byte_level"), given.tokenizer("byte_level")
    first.decode([1, 2, 10**9])
    first.decode([])
    assert (first.decoded, second.decoded) == (3, 0)
    assert first.id_to_token(1) == "</s>"
    assert first.id_to_token(-1) is first.id_to_token(10**9) is None


def test_a_vocabulary_is_a_copy(given):
    given.vocabulary("byte_level").clear()
    assert given.vocabulary("byte_level")[0] == "<s>"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff", "no tokenizer.json"),
        (b"[]", "no tokenizer.json"),
        (b'{"model": {"vocab": {}}, "added_tokens": []}', "no tokenizer.json"),
        (b'{"model": {"vocab": {}}, "added_tokens": [], "decoder": {"type": "WordPiece"}}',
         r"neither byte-level .* its decoder is \['WordPiece'\]"),
    ],
)  # fmt: skip
def test_another_file_is_refused_by_name(data, said):
    given = module({"own.json": data})
    assert given.NAMES == ["own"]
    with pytest.raises(ValueError, match=f"own.json cannot be used: .*{said}"):
        given.tokenizer("own")
    with pytest.raises(ValueError, match=f"^this .*{said}"):
        given.check_file("own.json")
    with pytest.raises(ValueError, match="there is no tokenizer 'mine'; there are own"):
        given.tokenizer("mine")
