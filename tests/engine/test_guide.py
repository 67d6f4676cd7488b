"""The guide to streams says what happens."""

import doctest

from labkit.course.lab import ROOT


def test_its_examples_run():
    guide = ROOT / "mini_vllm/engine/README.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False, encoding="utf-8")
    assert (failed, tried > 20) == (0, True)
