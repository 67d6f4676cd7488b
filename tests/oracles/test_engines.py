"""Plug-ins of labs 01 and 09 in vLLM and SGLang themselves, and over HTTP, without a GPU.

The solutions of several makes, each as a file of `make plugin`, are loaded by vLLM's own manager
and by SGLang's registry, and get the texts of vLLM's own tests of its Hermes parser, and texts of
the course. `engines/drive.py` runs them in the environment of the engines.

But: no model runs, and SGLang's server does not run.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections import defaultdict

import pytest
from engines.install import PYTHON

from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.serving.plugin_file import make_plugin
from upstream.derender import Server, write_model
from upstream.sources import SOURCES

HERE = ROOT / "tests" / "oracles" / "engines"
pytestmark = [
    pytest.mark.skipif(
        not PYTHON.exists() or not (SOURCES / "tests" / "tool_parsers").is_dir(),
        reason="vLLM and SGLang are not installed: make oracles",
    ),
    pytest.mark.timeout(600),
]
MAKES = ROOT / "tests" / "plugins" / "solutions"
LABS = {number: pick_lab(find_labs(ROOT), number) for number in ("01", "09")}
# The plug-ins by name: the lab, and the code.
PLUGINS = {
    f"lab_{number}_{code.stem.removeprefix(f'{number}_')}": (lab, code)
    for number, lab in LABS.items()
    for code in (lab.solution, *sorted(MAKES.glob(f"{number}_*.py")))
}
OWN = "hermes"
OWN_REASONING = "qwen3"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("f", "g", "get_current_temperature", "final_answer", "get_weather", "search")
]
CALL = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
# Texts of the course, by the reason why vLLM's or SGLang's own parser may give another answer.
OURS = {
    "plain text": "Hello 🚀 <b>",
    "a call": f"So {CALL}",
    "text after a call": f"So {CALL} and more.",
    "two calls": f"{CALL} and {CALL}",
    "a close tag in a string": (
        '<tool_call>{"name": "f", "arguments": {"t": "</tool_call> 🚀"}}</tool_call>'
    ),
    "a name in the arguments": '<tool_call>{"arguments": {"name": "g"}, "name": "f"}</tool_call>',
    "another member": '<tool_call>{"name": "f", "arguments": {"n": 1}, "id": "c1"}</tool_call>',
    "an empty object": '<tool_call>{"name": "g", "arguments": {}}</tool_call>',
    "numbers as they are": (
        '<tool_call>{"name":"f","arguments":{"n":1.0e5, "t":"\\u00e9"}}</tool_call>'
    ),
    "half a tag at the end": "So <tool_c",
    "not JSON": '<tool_call>{"name": "f", "arguments": {"n": oops}}</tool_call> end',
    "NaN": '<tool_call>{"name": "f", "arguments": {"n": NaN}}</tool_call>',
    "no close tag": '<tool_call>{"name": "f", "arguments": {"n": 1}}',
    "cut off in a string": 'So <tool_call>{"name": "f", "arguments": {"t": "So',
}
REASONING = {
    "reasoning": f"<think>Hm <b</think>So {CALL}",
    "a call in the reasoning": f"<think>{CALL}",
    "reasoning is cut off": "<think>Hm</thi",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model's folder with the plug-ins in it."""
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    for name, (lab, code) in PLUGINS.items():
        text = make_plugin(lab, code.read_bytes(), code.name, name, ROOT)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def environment(**values):
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**kept, "VLLM_TARGET_DEVICE": "cpu", "HF_HUB_OFFLINE": "1", **values}


def names(folder, number="*"):
    return sorted(path.stem for path in folder.glob(f"lab_{number}_*.py"))


@pytest.fixture(scope="module")
def suite(folder):
    """Run vLLM's own tests on each plug-in: the tests that fail, and the texts of all tests."""
    failed, texts = {}, []
    for name in names(folder):
        file = folder / f"{name}.jsonl"
        command = [str(PYTHON), "-m", "pytest", "-q", "-c", os.devnull, "-p", "suite",
                   "-p", "no:cacheprovider", "--noconftest", "--import-mode=importlib",
                   f"--rootdir={SOURCES / 'tests'}", "-k", "not granite4]", "-rfE",
                   str(SOURCES / "tests/tool_parsers/test_hermes_tool_parser.py")]  # fmt: skip
        env = environment(PYTHONPATH=str(HERE), PLUGIN=f"{name}.py", PLUGIN_TEXTS=file.name,
                          PLUGIN_SOURCES=str(SOURCES))  # fmt: skip
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert "passed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        failed[name] = [line.split("::")[1].split(" ")[0] for line in lines]
        texts += map(json.loads, file.read_text("utf-8").splitlines())
    return failed, sorted({text for text in texts if text})


@pytest.fixture(scope="module")
def answers(folder, suite):
    """The answers of all parsers in both engines: (engine, parser) -> text -> (whole, streams)."""
    _, texts = suite
    found = {}
    for engine in ("vllm", "sglang"):
        rows = [
            (name, name, name if "_09_" in name else None, f"{name}.py") for name in names(folder)
        ]
        # With a reasoning parser, Qwen 3's texts without a tag are reasoning by default.
        rows += [(OWN, OWN, None, None), (OWN_REASONING, OWN, OWN_REASONING, None)]
        cases = [
            (text, "", TOOLS, "auto") for text in (*texts, *OURS.values(), *REASONING.values())
        ]
        done = subprocess.run(
            [str(PYTHON), str(HERE / "drive.py"), engine, str(folder)], env=environment(),
            input=json.dumps({"parsers": rows, "cases": cases}), capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        for row in json.loads(done.stdout):
            whole, *streams = (without_space(answer) for answer in (row["whole"], *row["streams"]))
            streams = [stream for n, stream in enumerate(streams) if stream not in streams[:n]]
            found.setdefault((engine, row["parser"]), {})[row["text"]] = whole, streams
    return found


def without_space(answer):
    """Leave out a content of white space beside calls: vLLM drops it from whole answers."""
    reasoning, content, calls = answer
    return [reasoning, content if content.strip() or not calls else "", calls]


def test_vllms_own_tests_pass_but_for_those_that_differ_by_contract(folder, suite):
    failed, texts = suite
    assert len(texts) >= 10
    test = "test_hermes_parser_non_streaming_tool_call"
    for name in names(folder):
        # Lab 09 reports a call whose arguments are whole, although the object around them is not.
        # In lab 01, a call without its close tag is text.
        differs = "invalid_json" if "_09_" in name else "until_eos"
        assert failed[name] == [f"{test}_{differs}[llama]"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_streams_are_the_whole_under_every_cut(answers, folder, engine):
    for name in names(folder):
        for text, (whole, streams) in answers[engine, name].items():
            if "_09_" in name or text not in REASONING.values():
                assert streams == [whole], (name, text)


@pytest.mark.parametrize("number", ["01", "09"])
def test_solutions_of_all_makes_and_both_engines_agree(answers, folder, number):
    rows = [
        answers[engine, name] for engine in ("vllm", "sglang") for name in names(folder, number)
    ]
    assert len(rows) >= 6
    assert all(row == rows[0] for row in rows)


def test_the_table(answers, folder, suite, capsys):
    """Print the figures that stand in upstream/README.md."""
    texts = suite[1]
    groups = {"vLLM's tests": texts, "ours": [*OURS.values()], "reasoning": [*REASONING.values()]}
    with capsys.disabled():
        print(f"\n{'':34}{'texts':>7}{'stream=whole':>14}{'whole=engine':>14}")
        for (engine, name), rows in answers.items():
            for group, members in groups.items():
                with_reasoning = group == "reasoning"
                if with_reasoning and ("_01_" in name or name == OWN):
                    continue
                if not with_reasoning and name == OWN_REASONING:
                    continue
                own = answers[engine, OWN_REASONING if with_reasoning else OWN]
                same = sum(rows[text][1] == [rows[text][0]] for text in members)
                agree = sum(rows[text][0] == own[text][0] for text in members)
                print(f"{f'{engine} {name} {group}':44}{len(members):>4}{same:>7}{agree:>7}")
        titles = {text: title for title, text in (*OURS.items(), *REASONING.items())}
        for engine in ("vllm", "sglang"):
            rows = answers[engine, "lab_09_solution"]
            for text in rows:
                name = OWN_REASONING if text in REASONING.values() else OWN
                own = answers[engine, name]
                if rows[text][0] != own[text][0]:
                    title = titles.get(text, f"vLLM's {text[:60]!r}")
                    print(f"{engine}: {title}\n   ours  {rows[text][0]}\n   theirs {own[text][0]}")


def merged(deltas):
    reasoning, content, calls = "", "", defaultdict(lambda: ["", ""])
    for delta in deltas:
        reasoning += delta.get("reasoning") or ""
        content += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            calls[call["index"]][0] += call["function"].get("name") or ""
            calls[call["index"]][1] += call["function"].get("arguments") or ""
    return without_space([reasoning, content, [calls[index] for index in sorted(calls)]])


def served(folder, *flags):
    """Start `vllm launch render` and wait until it answers; return the process and its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PYTHON.with_name("vllm")), "launch", "render", ".", "--host", "127.0.0.1",
               "--port", str(port), "--enable-auto-tool-choice", *flags]  # fmt: skip
    log = (folder / f"{port}.log").open("w")
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True
    )
    url = f"http://127.0.0.1:{port}"
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5)
        except OSError:
            time.sleep(0.5)
        else:
            return process, url
    raise AssertionError((folder / f"{port}.log").read_text()[-2000:])


@pytest.mark.parametrize("name", [*PLUGINS, OWN])
def test_over_http_streams_are_the_whole(folder, suite, capsys, name):
    """The engine's own parser is counted, too; that it differs is not a fault of ours."""
    flags = ["--tool-call-parser", name]
    if name == OWN:
        flags += ["--reasoning-parser", OWN_REASONING]
    else:
        flags += ["--tool-parser-plugin", f"{name}.py"]
    if "_09_" in name:
        flags += ["--reasoning-parser", name, "--reasoning-parser-plugin", f"{name}.py"]
    process, url = served(folder, *flags)
    try:
        server = Server(folder, url, ".")
        equal = total = 0
        for text in (f"<think>Hm.</think>{text}" for text in (*suite[1], *OURS.values())):
            whole = server.whole(text, tools=TOOLS)
            expected = merged([{**whole, "tool_calls": [
                {**call, "index": n} for n, call in enumerate(whole.get("tool_calls") or ())
            ]}])  # fmt: skip
            for size in (1, 4, 16):
                total += 1
                stream = merged(server.streamed(text, size, tools=TOOLS))
                equal += stream == expected
                assert name == OWN or stream == expected, text
        with capsys.disabled():
            print(f"\nover HTTP, {name}: {equal} of {total} streams are the whole")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def test_loading_by_a_relative_path_is_the_error_that_the_file_tells(folder):
    code = "from vllm.tool_parsers import ToolParserManager as M; M.import_tool_parser('./{}')"
    name = f"{names(folder)[0]}.py"
    done = subprocess.run(
        [str(PYTHON), "-c", code.format(name)], cwd=folder, env=environment(), capture_output=True,
        text=True,
    )  # fmt: skip
    assert "TypeError" in done.stderr
    assert "stops with a TypeError" in (folder / name).read_text("utf-8").replace("\n", " ")
