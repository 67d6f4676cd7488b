"""The bench without the book around it: one run, in Chromium.

It is the one test in a browser that `make test` has; `make site ARGS=--test` has the others.
"""

import os

import pytest
from bench_page import Bench, serving
from course_code import BUGS

from labkit.course.lab import ROOT
from labkit.publish.site import frontend
from labkit.publish.site.bench import write_bench

FRONT_END = ROOT / "site"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'self'; script-src 'self' \
'wasm-unsafe-eval'; object-src 'none'; base-uri 'none'; form-action 'none'">
<title>Lab 03</title>
<script type="module" src="/bench/bench.js"></script>
</head>
<body>
<div id="bench" data-lab="03" data-base="../../bench/"></div>
</body>
</html>
"""


@pytest.fixture
def bare(tmp_path):
    """A folder with the bench of lab 03 and nothing else."""
    if not (FRONT_END / "node_modules").exists():
        reason = "site/node_modules is missing: `make site` installs it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    for name in ("index.html", "labs/03/index.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(PAGE, "utf-8")
    frontend.run_program(FRONT_END, "build.mjs", tmp_path)
    write_bench(ROOT, ROOT, tmp_path / "bench")
    frontend.run_program(FRONT_END, "seal.mjs", tmp_path)
    return tmp_path


def test_a_known_bug_gets_its_report(driver, bare):
    with serving(bare) as server:
        bench = Bench(driver, server.url, "03")
        bench.grade(BUGS["decode-alone"])
        assert bench.score == (10, 100)
        assert "test_emoji_is_held_until_complete" in bench.failing
    complaints = [entry["message"] for entry in driver.get_log("browser")]
    assert [one for one in complaints if "favicon" not in one] == []
