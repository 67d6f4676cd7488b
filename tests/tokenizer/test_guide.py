"""The guide to tokenizers says what happens."""

import doctest

from labkit.course.lab import ROOT


def test_its_examples_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    guide = ROOT / "mini_vllm/tokenizer/README.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False, encoding="utf-8")
    assert (failed, tried > 10) == (0, True)
