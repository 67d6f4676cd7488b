"""The program that streams the requests of a file, with a terminal and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mini_vllm.engine import SamplingParams, StructuredOutputsParams
from mini_vllm.models.ngram import load_embedded
from mini_vllm.stream import main, read_requests

pexpect = pytest.importorskip("pexpect", reason="Windows has no terminals for it")
ROOT = Path(__file__).resolve().parents[1]
# The second and the third never end by themselves.
SCRIPT = """
[[turn]]
text = "naïve 🚀 done"
[[turn]]
text = "abcdef"
silent_after = 4
[[turn]]
text = "ghijkl"
silent_after = 4
"""
REQUESTS = [{"prompt": "a", "stop": "done"}, {"prompt": "b"}, {"prompt": "c"}]


@pytest.fixture
def files(tmp_path):
    script, requests = tmp_path / "script.toml", tmp_path / "requests.json"
    script.write_text(SCRIPT)
    requests.write_text(json.dumps(REQUESTS))
    return [str(requests), "--script", str(script), "--pace", "0"]


def test_without_a_terminal_each_chunk_is_a_line(files, tmp_path, capsys):
    (tmp_path / "requests.json").write_text(json.dumps(REQUESTS[:1] * 2))
    (tmp_path / "script.toml").write_text(SCRIPT.partition('[[turn]]\ntext = "abc')[0])
    assert main(files) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for name in "12":
        mine = [line for line in lines if line["request"] == name]
        assert "".join(line["text"] for line in mine) == "naïve 🚀 "
        assert mine[-1]["finish_reason"] == "stop-words: done"
        # What would be half a character or half a stop string is held and shown as such.
        assert {"c3", "f0", "f0 9f", "f0 9f 9a", "d", "do", "don"} <= {
            line.get("held") for line in mine
        }


def test_keys_skip_one_and_quit(files):
    command = ["-m", "mini_vllm.stream", *files]
    child = pexpect.spawn(
        sys.executable, command, cwd=ROOT, encoding="utf-8", timeout=60, dimensions=(60, 120)
    )
    child.expect("1: stop-words: done")
    child.expect("ghij")
    child.send("3")
    child.expect("3: cancelled")
    child.send("x9q")
    child.expect("2: cancelled")
    child.expect("all have ended")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_the_example_that_comes_along_is_sound_and_shows_a_stop_string(capsys):
    assert main(["--pace", "0"]) == 0
    assert "stop-words" in capsys.readouterr().out


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_is_no_error(files, unbuffered):
    gone, output = os.pipe()
    os.close(gone)
    command = [sys.executable, "-m", "mini_vllm.stream", *files]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open(output, "wb") as stdout:
        done = subprocess.run(
            command, cwd=ROOT, env=env, stdout=stdout, stderr=subprocess.PIPE, timeout=60,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("[", "is not JSON"),
        ("[" * 257 + "]" * 257, "is not JSON: nested deeper than 256; flatten it"),
        ("{}", 'must be a list such as [{"prompt": "Once"}]'),
        ("[]", "must be a list"),
        ("[1]", "request 1: it is 1; it must be an object"),
        ('[{"prompt": "a"}, {}]', "request 2: it must have either a prompt or messages"),
        ('[{"prompt": 1}]', "prompt is 1; it must be a text"),
        ('[{"prompt": "a", "max_token": 1}]', "max_token is not known; use"),
        ('[{"prompt": "a", "max_tokens": 0}]', "max_tokens is 0"),
        ('[{"prompt": "a", "stop": [1]}]', "stop has 1"),
        ('[{"prompt": "a", "temperature": "x"}]', "temperature is 'x'; it must be of the type int"),
        ('[{"prompt": "a", "max_tokens": true}]', "max_tokens is True; it must be of the type int"),
        ('[{"prompt": "a", "logit_bias": {"x": 1}}]', "logit_bias is {'x': 1}; it must be numbers"),
        ('[{"prompt": "a", "logit_bias": {"5": [1]}}]', "logit_bias is {'5': [1]}; it must be"),
        (
            '[{"prompt": "a", "stop_token_ids": ["x"]}]',
            "stop_token_ids is ['x']; it must be a list",
        ),
        ('[{"prompt": "a", "structured_outputs": {"regx": "a"}}]', "{'regx': 'a'}; it must be one"),
        (
            '[{"prompt": "a", "structured_outputs": {"regex": 5}}]',
            "{'regex': 5}; it must be",
        ),
        ('[{"prompt": "a", "structured_outputs": {"choice": [1]}}]', "{'choice': [1]}; it must be"),
        ('[{"messages": [1]}]', "request 1: "),
        ('[{"prompt": "a", "max_tokens": 100000}]', "requests.json: "),
    ],
)
def test_a_faulty_file_is_told_with_its_value(tmp_path, capsys, content, said):
    path = tmp_path / "requests.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit):
        main([str(path)])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--slots", "0"], ["--pace", "-1"], ["--script", "none"]])
def test_a_faulty_option_is_told_with_its_value(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[1] in capsys.readouterr().err


def test_a_bias_and_what_an_answer_must_look_like_are_told_as_the_api_tells_them(tmp_path):
    path = tmp_path / "requests.json"
    schema = {"enum": ["a"]}
    asked = [{"logit_bias": {"98": 5}, "seed": None}]
    asked += [{"structured_outputs": one} for one in ({"json": schema}, {"choice": ["a", "b"]})]
    path.write_text(json.dumps([{"prompt": "a", **one} for one in asked]))
    bias, enum, choice = [row.request.params for row in read_requests(path, load_embedded())]
    assert bias == SamplingParams(max_tokens=200, logit_bias={98: 5})
    assert enum.structured_outputs == StructuredOutputsParams(json=json.dumps(schema))
    assert choice.structured_outputs == StructuredOutputsParams(choice=("a", "b"))


def test_messages_go_through_the_template(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text('[{"messages": [{"role": "user", "content": "Hi"}]}]')
    (row,) = read_requests(path, load_embedded())
    assert row.request.prompt.endswith("<|user|>\nHi\n<|assistant|>\n")
