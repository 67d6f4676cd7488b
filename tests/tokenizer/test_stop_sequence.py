"""StopSequenceDecoder: the acceptance list with exact texts, and the contract."""

import os
import random

import pytest
from prometheus_client import CollectorRegistry
from vocabularies import KINDS, byte_level

from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, MockTokenizer
from mini_vllm.tokenizer.metered import MeteredTokenizer
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.streams.stop_sequence import (
    Held,
    StopMatch,
    Stopped,
    StoppedWithText,
    StopSequenceConfig,
    StopSequenceDecoder,
    StopSequenceDecoderBuilder,
    Text,
)

CASES = 40_000 if os.environ.get("SOAK") else 2_000
HELLO, WORLD, TEST, TOKEN, EOS, BOS = 1, 2, 3, 4, 999, 1000
EOS_BYTE = ByteTokenizer.eos_token_id


def mock(**config):
    return StopSequenceDecoder(MockTokenizer(), StopSequenceConfig(**config))


def of_bytes(*stops, **options):
    return StopSequenceDecoder(
        ByteTokenizer(), StopSequenceConfig(stop_sequences=stops, **options.pop("config", {})),
        **options,
    )  # fmt: skip


def ids(text):
    return list(text.encode() if isinstance(text, str) else text)


def joined(outputs):
    return "".join(out.text for out in outputs if isinstance(out, Text | StoppedWithText))


# --- acceptance rows U14 to U22

# (configuration, ids, outputs, what stopped, ids taken)
SEEN = {
    "U14 stop token": ({"stop_tokens": frozenset([EOS])}, [HELLO, EOS, WORLD, EOS],
        [Text("Hello"), Stopped()], StopMatch("token", EOS), 2),
    # A special token is shown as it is written; a word in its context, so with its space.
    "U15 visible special token": ({"visible_stop_tokens": frozenset([EOS])}, [HELLO, EOS],
        [Text("Hello"), StoppedWithText("<eos>")], StopMatch("visible_token", EOS), 2),
    "U15 visible word": ({"visible_stop_tokens": frozenset([WORLD])}, [HELLO, WORLD],
        [Text("Hello"), StoppedWithText(" world")], StopMatch("visible_token", WORLD), 2),
    "no repetition": ({}, [HELLO, WORLD, TEST],
        [Text("Hello"), Text(" world"), Text(" test")], None, 3),
    "stop sequence": ({"stop_sequences": ("test",)}, [HELLO, WORLD, TEST, TOKEN],
        [Text("Hello"), Text(" world"), StoppedWithText(" ")], StopMatch("string", "test"), 3),
    "visible stop sequence": ({"visible_stop_sequences": ("world",)}, [HELLO, WORLD, TEST],
        [Text("Hello"), StoppedWithText(" world")], StopMatch("visible_string", "world"), 2),
    "a stop that does not come": ({"stop_sequences": ("!",)}, [HELLO, WORLD, TEST],
        [Text("Hello"), Text(" world"), Text(" test")], None, 3),
    "both": ({"stop_tokens": frozenset([WORLD]), "visible_stop_tokens": frozenset([WORLD])},
        [HELLO, WORLD], [Text("Hello"), Stopped()], StopMatch("token", WORLD), 2),
}  # fmt: skip


@pytest.mark.parametrize("case", SEEN)
def test_outputs_and_what_stopped(case):
    config, token_ids, outputs, match, taken = SEEN[case]
    decoder = mock(**config)
    assert decoder.process_tokens(token_ids) == outputs
    assert (decoder.matched_stop, decoder.is_stopped) == (match, match is not None)
    assert decoder.tokens_consumed == taken
    if match:
        # Nothing comes after the end, also one id at a time.
        assert [decoder.process_token(i) for i in (WORLD, EOS, HELLO)] == [Stopped()] * 3
        assert decoder.tokens_consumed == taken


def test_builder_pattern_and_reset():
    decoder = (
        StopSequenceDecoderBuilder(MockTokenizer())
        .stop_token(EOS)
        .stop_sequence("test")
        .visible_stop_token(TOKEN)
        .visible_stop_sequence("world")
        .skip_special_tokens(False)
        .build()
    )
    assert not decoder.is_stopped
    assert decoder.matched_stop is None
    assert decoder.process_tokens([HELLO, BOS]) == [Text("Hello"), Text(" <bos>")]
    assert decoder.process_tokens([WORLD]) == [StoppedWithText(" world")]
    for token_id, last, kind in [
        (EOS, Stopped(), "token"),
        (TEST, StoppedWithText(" "), "string"),
        (TOKEN, StoppedWithText(" token"), "visible_token"),
    ]:
        decoder.reset()
        reset = (decoder.is_stopped, decoder.matched_stop, decoder.tokens_consumed, decoder.jail)
        assert reset == (False, None, 0, "")
        assert decoder.process_tokens([HELLO, token_id]) == [Text("Hello"), last]
        assert decoder.matched_stop.kind == kind


# --- half a character


def test_k5_a_half_character_at_a_stop_is_said():
    """K5: others lose it. A hidden stop token ends the text, and the character."""
    config = {"config": {"stop_tokens": frozenset([EOS_BYTE])}}
    decoder = of_bytes(**config)
    assert decoder.process_tokens([*b"ok\xf0\x9f", EOS_BYTE]) == [
        Text("o"), Text("k"), Held(), Held(), StoppedWithText("\ufffd"),
    ]  # fmt: skip
    decoder = of_bytes("#!", **config)
    assert decoder.process_tokens([*b"#\xe4", EOS_BYTE])[2] == StoppedWithText("#\ufffd")
    decoder = of_bytes()
    decoder.process_tokens(b"ok\xf0\x9f")
    assert [decoder.flush(), decoder.flush()] == [Text("\ufffd"), Held()]


def test_the_flush_may_complete_a_stop():
    decoder = of_bytes("k\ufffd")
    assert decoder.process_tokens(b"ok\xf0") == [Text("o"), Held(), Held()]
    assert (decoder.flush(), decoder.flush()) == (Stopped(), Stopped())
    assert decoder.matched_stop == StopMatch("string", "k\ufffd")


# --- stop tokens


def test_a_token_stops_before_a_string_can():
    """And what was jailed was no stop, so it is shown."""
    decoder = of_bytes("ab", config={"stop_tokens": frozenset(b"b")})
    assert decoder.process_tokens(b"xab") == [Text("x"), Held(), StoppedWithText("a")]
    assert decoder.matched_stop == StopMatch("token", ord("b"))


def test_a_visible_token_that_is_half_a_character():
    """It is what its bytes are; the spelling of a byte in the vocabulary is nobody's text."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_level())
    lead = tokenizer.token_to_id("ä")
    assert tokenizer.pieces.rest[lead] == b"\xe4"
    config = StopSequenceConfig().with_visible_stop_token(lead)
    for skip in (True, False):
        decoder = StopSequenceDecoder(tokenizer, config, skip_special_tokens=skip)
        assert decoder.process_token(lead) == StoppedWithText("\ufffd")


@pytest.mark.parametrize("skip", [True, False], ids=["skip", "show"])
def test_a_visible_special_token_ends_a_half_character(skip):
    decoder = of_bytes(
        "#<eos>!", config={"visible_stop_tokens": frozenset([EOS_BYTE])}, skip_special_tokens=skip
    )
    assert joined(decoder.process_tokens([*b"#\xf0\x9f", EOS_BYTE])) == "#\ufffd<eos>"
    assert decoder.matched_stop.kind == "visible_token"


def test_a_stop_string_that_is_a_special_token_stops_at_its_id():
    """A skipped token never reaches the text, so no string can find it there."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_level())
    end = tokenizer.token_to_id("<|im_end|>")
    text = tokenizer.encode("hello").ids
    stops = StopSequenceConfig(stop_sequences=("<|im_end|>",))
    decoder = StopSequenceDecoder(tokenizer, stops)
    assert joined(decoder.process_tokens([*text, end, *text])) == "hello"
    assert decoder.matched_stop == StopMatch("token", end)
    # Written out, without the special token, it is a string like any other.
    decoder = StopSequenceDecoder(tokenizer, stops)
    letters = [tokenizer.token_to_id(char) for char in "x<|im_end|>"]
    assert joined(decoder.process_tokens(letters)) == "x"
    assert decoder.matched_stop == StopMatch("string", "<|im_end|>")
    decoder = StopSequenceDecoder(tokenizer, stops, resolve_special_stops=False)
    assert joined(decoder.process_tokens([*text, end, *text])) == "hellohello"
    shown = StopSequenceConfig(visible_stop_sequences=("<|im_end|>",))
    decoder = StopSequenceDecoder(tokenizer, shown)
    assert joined(decoder.process_tokens([*text, end, *text])) == "hello<|im_end|>"


def test_unknown_ids_are_no_text_and_may_stop():
    decoder = of_bytes("ab", config={"stop_tokens": frozenset([-7])})
    assert decoder.process_tokens([-1, *b"a", 2**40, *b"c", -7]) == [
        Held(), Held(), Held(), Text("ac"), Stopped(),
    ]  # fmt: skip


# --- the contract


def test_text_is_never_empty_and_jail_and_shown_are_all_there_is():
    """K6: byte offsets would fall inside characters. A flush lets a partial stop go."""
    generator = random.Random(0)
    stopped = 0
    for _ in range(CASES):
        stops = [
            "".join(generator.choices("aé🚀#", k=generator.randint(1, 4)))
            for _ in range(generator.randint(1, 3))
        ]
        text = "".join(generator.choices("aé🚀#", k=generator.randint(0, 8)))
        decoder, shown = of_bytes(*stops), ""
        for taken, token_id in enumerate(ids(text), start=1):
            output = decoder.process_token(token_id)
            shown += joined([output])
            assert output not in (Text(""), StoppedWithText(""))
            if decoder.is_stopped:
                assert isinstance(output, Stopped | StoppedWithText)
                break
            assert isinstance(output, Text | Held)
            assert len(decoder.jail) < max(map(len, stops))
            assert any(stop.startswith(decoder.jail) for stop in stops)
            complete = ids(text)[:taken]
            assert shown + decoder.jail == bytes(complete).decode(errors="ignore")
        end = next(
            (n for n in range(1, len(text) + 1) if text[:n].endswith(tuple(stops))), len(text) + 1
        )
        longest = max((s for s in stops if text[:end].endswith(s)), key=len, default="")
        if end <= len(text):
            assert (shown, decoder.matched_stop) == (
                text[: end - len(longest)], StopMatch("string", longest),
            )  # fmt: skip
            assert decoder.tokens_consumed == len(text[:end].encode())
            assert decoder.flush() == Stopped()
            stopped += 1
        else:
            assert shown + joined([decoder.flush()]) == text
            assert (decoder.jail, decoder.flush()) == ("", Held())
    assert CASES / 4 < stopped < CASES


@pytest.mark.parametrize("kind", ["byte-level", "llama", "wordpiece-cleanup", "none"])
def test_every_kind_of_tokenizer(kind):
    """I06, with or without a table of pieces: up to the stop the text is what `decode` gives."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    generator = random.Random(kind)
    for _ in range(300):
        some = [generator.randrange(3, tokenizer.vocab_size) for _ in range(6)]
        plain = StopSequenceDecoder(tokenizer, StopSequenceConfig())
        text = joined([*plain.process_tokens(some), plain.flush()])
        stop = text[len(text) // 2 :][:2] or "x"
        decoder = StopSequenceDecoder(tokenizer, StopSequenceConfig(stop_sequences=(stop,)))
        shown = joined([*decoder.process_tokens(some), decoder.flush()])
        assert shown == text.partition(stop)[0]
        assert decoder.matched_stop == (StopMatch("string", stop) if stop in text else None)


def test_the_prompt_is_context_and_no_text():
    rocket = ids("🚀")
    decoder = of_bytes("🚀!", prompt_token_ids=[*b"!", *rocket[:3]])
    for _ in range(2):
        assert decoder.process_tokens([rocket[3], *b"?"]) == [Held(), Text("🚀?")]
        decoder.reset()
    words = StopSequenceDecoder(MockTokenizer(), StopSequenceConfig(), prompt_token_ids=[HELLO])
    assert words.process_token(WORLD) == Text(" world")


def test_configuration():
    config = StopSequenceConfig().with_stop_token(1).with_stop_sequence("a")
    assert config.with_visible_stop_token(2).with_visible_stop_sequence("b") == StopSequenceConfig(
        frozenset([1]), ("a",), frozenset([2]), ("b",)
    )
    # It does not change; empty strings are ignored, and a single string is refused.
    assert config == StopSequenceConfig(frozenset([1]), ("a",))
    assert of_bytes("", "#", "").process_tokens(b"a#") == [Text("a"), Stopped()]
    for name in ("stop_sequences", "visible_stop_sequences"):
        with pytest.raises(ValueError, match="END"):
            StopSequenceDecoder(ByteTokenizer(), StopSequenceConfig(**{name: "END"}))


def test_metrics_are_counted():
    registry = CollectorRegistry()
    tokenizer = MeteredTokenizer(ByteTokenizer(), TokenizerMetrics(registry))
    config = StopSequenceConfig(frozenset([257]), ("###",), frozenset(b"!"), ("yes",))
    for text in ([*b"a#b"], [*b"a", 257], b"a!", b"a###", b"ayes", b"a\xf0"):
        decoder = StopSequenceDecoder(tokenizer, config)
        decoder.process_tokens(text)
        decoder.flush()

    def value(name, **labels):
        return registry.get_sample_value(f"sgl_tokenizer_{name}", labels)

    for kind in ("token", "visible_token", "string", "visible_string"):
        assert value("stop_sequences_detected_total", type=kind) == 1, kind
    # `#` of the first text, `#` and `##` of the fourth; what is shown cannot become a stop.
    assert value("partial_matches_total") == 3
    assert value("stop_detection_duration_seconds_count") == 20
