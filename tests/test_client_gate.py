"""The gate that plays a lab's streams to the official client finds what is not as told."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from labkit.course.lab import read_lab
from labkit.gates import GATES

ROOT = Path(__file__).resolve().parents[1]
(DATA,) = ROOT.glob("phase-*/labs/lab-*/client.toml")


@pytest.fixture
def played(tmp_path):
    """A repository with that lab alone, and its given files."""
    folder = tmp_path / DATA.parent.relative_to(ROOT)
    shutil.copytree(DATA.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in read_lab(DATA.parent).given_files:
        copy = tmp_path / file.resolve().relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder / DATA.name


def findings(played):
    return [str(finding) for finding in GATES["clients"](played.parents[3])]


def test_streams_are_read_as_told(played):
    assert findings(played) == []


# (file, what to find, what to put there, a part of the only finding)
FAULTS = [
    ("client.toml", 'role" = "assistant"', 'role" = "user"',
     "solution: the client sees choices.0.message.role = 'assistant', not 'user'"),
    ("client.toml", '"usage.total_tokens" = 37', '"usage.all" = 37', "sees usage.all = 'nothing'"),
    ("client.toml", '"bug:index-from-one"', '"bug:raw-line-ends"', "sees raises = 'nothing'"),
    ("client.toml", '"bug:index-from-one"', '"bug:none"', "has no such bug"),
    ("client.toml", 'implementation = "solution"', 'implementation = "bug:raw-line-ends"',
     "plays the solution once"),
    ("client.toml", '["start"]', '["begin"]', "has no method 'begin'"),
    ("client.toml", "calls = [", "call = [", "it cannot be played: 'calls'"),
    ("solution.py", 'return b"data: [DONE]\\n\\n"', 'return "[DONE]"', "it cannot be played"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "find", "put", "finding"), FAULTS)
def test_a_planted_fault_is_found(played, file, find, put, finding):
    path = played.parent / file
    text = path.read_text()
    assert text.count(find) == 1
    path.write_text(text.replace(find, put))
    (found,) = findings(played)
    assert finding in found


def test_what_is_also_true_of_the_reference_is_no_symptom(played):
    text = played.read_text()
    before, _, after = text.partition('raises = "IndexError"')
    played.write_text(before.replace("bug:index-from-one", "bug:raw-line-ends")
                      + '"choices.0.index" = 0' + after)  # fmt: skip
    (found,) = findings(played)
    assert "bug:raw-line-ends: its recorded results also hold for the solution" in found


def test_without_the_client_it_is_a_note_and_in_ci_a_finding(played, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for in_ci in ("", "true"):
        monkeypatch.setenv("CI", in_ci)
        (found,) = GATES["clients"](played.parents[3])
        assert "the openai client is missing" in found.message
        assert found.is_note is not bool(in_ci)
