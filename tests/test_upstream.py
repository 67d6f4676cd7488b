"""What we say of the engines' sources: the pinned versions agree, a name that is not there is
found, and choices that differ from theirs are explained. Nothing is fetched here."""

import importlib.util
import re
import tarfile
import tomllib
import zipfile

import pytest

from labkit.course.lab import ROOT

spec = importlib.util.spec_from_file_location("sources", ROOT / "upstream" / "sources.py")
sources = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sources)

PAGE = """\
# A lab

See `vllm/v1/engine/detokenizer.py`.

## Hitchhiker's notes

- In vLLM, `check_stop_strings` is short, and `tool` a value. tiktoken calls it `other_name`.
- Ours is `ServingPipeline.feed`, where vLLM has nothing.
- A proxy has `no_such_name`.

## Going further
"""
MAP = """\
| Where | Look for | What differs |
|---|---|---|
| vLLM [`vllm/v1/engine/detokenizer.py`](https://x): `check_stop_strings` | `best_end` | `no_name` |
| the same file: `Base.update` | what `ServingPipeline` is | |
"""
SOURCE = "def check_stop_strings(): best_end = 1\nclass Base:\n    def update(self): pass\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository whose map and notes are right."""
    for name, text in (
        ("upstream/.sources/vllm/v1/engine/detokenizer.py", SOURCE),
        ("upstream/README.md", MAP),
        ("mini_vllm/engine/front.md", MAP),
        ("phase-1/labs/lab-01/README.md", PAGE),
        ("mini_vllm/pipeline.py", "class ServingPipeline:\n    def feed(self): pass\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "SOURCES", tmp_path / "upstream/.sources")
    monkeypatch.setattr(sources, "MAP", tmp_path / "upstream/README.md")
    return tmp_path


def test_what_is_there_is_found(tree):
    assert sources.check() == []


@pytest.mark.parametrize(
    ("file", "find", "replace", "said"),
    [
        (
            "upstream/README.md",
            "engine/detok",
            "engine/detokk",
            "there is no vllm/v1/engine/detokk",
        ),
        ("upstream/README.md", "`check_stop", "`check_stops", "line 3: check_stops_strings is not"),
        ("upstream/README.md", "`best_end", "`best_endd", "line 3: best_endd is not in vllm/v1"),
        ("upstream/README.md", "Base.update", "Base.push", "line 4: Base.push is not in vllm/v1"),
        ("mini_vllm/engine/front.md", "`best_end", "`best_endd", "line 3: best_endd is not in"),
        ("phase-1/labs/lab-01/README.md", "engine/detok", "detok", "there is no vllm/v1/detok"),
        ("phase-1/labs/lab-01/README.md", "check_stop", "find_stop", "find_stop_strings is in no"),
    ],
)
def test_what_is_not_there_is_told_by_its_place(tree, file, find, replace, said):
    text = (tree / file).read_text()
    (tree / file).write_text(text.replace(find, replace))
    finding, *_ = sources.check()
    assert finding.startswith(file)
    assert said in finding


def test_the_pinned_versions_are_those_that_the_map_and_the_labs_speak_of():
    text = (ROOT / "upstream" / "README.md").read_text(encoding="utf-8")
    for engine in sources.ENGINES:
        assert f"{engine.name} {engine.version}**" in text
        assert f"/v{engine.version}/" in text
        for page in (*sources.tables(), *sources.notes()):
            told = re.findall(rf"\b{engine.name} (\d+\.\d+\.\d+)", page.read_text("utf-8"))
            assert set(told) <= {engine.version}, page


def test_only_sources_are_unpacked_and_nothing_beside_the_folder(tmp_path, monkeypatch):
    """Whatever an archive holds; pip is replaced by one that is made here."""
    wheel, tar = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    names = ("a/x.py", "a/y.rs", "a/z.so", "a/models/m.py", "a/../../out.py", "b/x.py")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    with tarfile.open(tar, "w:gz") as archive:
        (tmp_path / "x").write_text("x")
        for name in names:
            archive.add(tmp_path / "x", f"a-1/{name}")
        link = tarfile.TarInfo("a-1/a/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "x.py"
        archive.addfile(link)
    place = tmp_path / "one" / "two"
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "SOURCES", place)
    place.mkdir(parents=True)
    for made, inside in ((wheel, ""), (tar, "a-1/")):
        monkeypatch.setattr(sources, "_download", lambda *_, made=made: made)
        source = sources.Source("A", f"a{inside[:1]}", "1", "", 1, inside, ("a",), ("a/models",))
        assert sources.fetch(source)
        kept = {str(path.relative_to(place)) for path in place.glob("*/**/*") if path.is_file()}
        assert kept == {"a/x.py", "a/y.rs"}
        assert not (tmp_path / "one" / "out.py").exists()


DISAGREEMENTS = ROOT / "tests" / "oracles" / "peer_suites" / "disagreements.toml"
CHOICES = [
    one
    for one in tomllib.loads(DISAGREEMENTS.read_text("utf-8"))["disagreement"]
    if one["kind"] == "choice"
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice["why"])
def test_where_parsers_differ_by_choice_the_page_says_so(choice):
    page = (ROOT / "mini_vllm" / "text" / "README.md").read_text("utf-8")
    assert choice["line"] in page.replace("\n  ", " ")
