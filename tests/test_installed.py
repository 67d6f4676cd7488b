"""The engine as a wheel, in an environment that knows nothing of this checkout."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from flit_core import buildapi

ROOT = Path(__file__).resolve().parents[1]
# Libraries of extras that an environment may lack.
_WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from mini_vllm.__main__ import main
sys.exit(main({arguments!r}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder with the unpacked wheel and its scripts, and the environment to use it in."""
    folder = tmp_path_factory.mktemp("installed")
    here = os.getcwd()
    try:
        os.chdir(ROOT)
        wheel = buildapi.build_wheel(str(folder))
    finally:
        os.chdir(here)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", folder / "site", folder / wheel], check=True)
    return folder / "site", {**os.environ, "PYTHONPATH": str(folder / "site")}


def run(installed, *command):
    folder, environment = installed
    done = subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_it_has_the_engine_and_nothing_of_the_course(installed):
    folder, _ = installed
    names = {path.name for path in folder.iterdir() if path.suffix != ".dist-info"}
    assert names == {"mini_vllm", "bin"}
    here = ROOT / "mini_vllm"
    tracked = subprocess.run(
        ["git", "ls-files", "mini_vllm"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    files = tracked or [str(path.relative_to(ROOT)) for path in here.rglob("*.*")]
    assert [name for name in files if ".pyc" not in name and not (folder / name).exists()] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 0, "mini-vllm VERB"),
        (["--help"], 0, "serve .*tokenizer "),
        (["--version"], 0, r"^mini-vllm \d+\.\d+"),
        (["nonsense"], 2, "nonsense is not a verb"),
        (["tokenizer", "byte", "--text", "é"], 0, "c3"),
        (["tokenizer", "--help"], 0, "usage: mini-vllm tokenizer"),
        (["serve", "--help"], 0, "usage: mini-vllm serve"),
    ],
)
def test_its_program(installed, arguments, code, said):
    folder, _ = installed
    found, out, err = run(installed, folder / "bin/mini-vllm", *arguments)
    assert found == code, err
    assert re.search(said, out + err, re.DOTALL)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "missing", "said"),
    [
        (["serve"], "starlette", r"needs starlette: `make serve`.*\[serve\]"),
        (["tokenizer", "gpt-4"], "tiktoken", "needs the tiktoken package: `make tokenizer`"),
        (["serve", "--tokenizer", "gpt-4"], "tiktoken", "--tokenizer gpt-4: .*`make tokenizer`"),
    ],
)
def test_an_extra_that_is_missing_says_what_installs_it(installed, arguments, missing, said):
    program = _WITHOUT.format(missing=[missing], arguments=arguments)
    code, _, err = run(installed, sys.executable, "-c", program)
    assert code in (1, 2)
    assert re.search(said, err, re.DOTALL)
    assert "Traceback" not in err


def test_its_server_has_its_page_its_template_and_its_examples(installed):
    folder, environment = installed
    child = subprocess.Popen(
        [folder / "bin/mini-vllm", "serve", "--port", "0"],
        cwd=folder.parent, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = next(
            found[0] for line in child.stdout if (found := re.search(r"http://[\d.:]+/", line))
        )
        with urllib.request.urlopen(address) as page:
            assert b"page.js" in page.read()
        with urllib.request.urlopen(f"{address}say") as told:
            assert json.load(told)["examples"]
    finally:
        child.kill()
        child.wait()
