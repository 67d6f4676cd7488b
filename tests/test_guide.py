"""The pages for all labs say what happens: the report is the one that this code gets."""

import os
import re
import subprocess
import sys

from labkit.course.lab import ROOT, find_labs, pick_lab

GUIDE = next(ROOT.glob("phase-*/guide"))


def blocks(kind):
    page = (GUIDE / "failing-report.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_failing_report_is_that_of_the_code_above_it(tmp_path):
    starter = tmp_path / "starter.py"
    starter.write_text(*blocks("python"), encoding="utf-8")
    lab = pick_lab(find_labs(ROOT), "03")
    command = [sys.executable, "-m", "pytest", "-q", str(lab.path), "--lab-task", "2"]
    env = {**os.environ, "LAB_IMPL": str(starter), "LAB_SEED": "0", "COLUMNS": "80"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    begin, end = blocks("text")
    assert begin in done.stdout
    assert end in done.stdout
