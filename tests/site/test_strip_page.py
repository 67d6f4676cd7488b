"""The strip below the bench, in Chromium."""

import pytest
from bench_page import StripOf
from course_code import BUGS, REFERENCES, with_feed

# What `feed` does, and what is said of it.
WRONG = {
    "loops": ("while True: pass", "endless loop"),
    "raises": ("raise KeyError(token_id)", "KeyError: 97"),
    "ends Python": ("import os; os._exit(0)", "os._exit"),
}


class TestStrip:
    def test_it_shows_the_readers_own_code_beside_the_others(self, bench):
        bench.write(BUGS["decode-alone"])
        strip = StripOf(bench)
        shown = "return ['sums', 'steps'].map((id) => $(id).checkVisibility())"
        assert strip.js(shown) == [False, False]
        verdict = strip.play()
        assert strip.js(shown) == [True, True]
        assert "�" in strip.said("own")
        assert strip.said("reference").startswith("Grüße! 你好 🚀")
        assert "your code differs from the reference" in verdict
        bench.write("x = (\n")
        assert strip.play() == "Done: your code did not run"
        assert "is not valid Python" in strip.js("return $('alert').textContent")
        bench.write(REFERENCES["03"])
        assert strip.play() == "Done: the same as the reference, step by step"
        assert strip.said("own") == strip.said("reference")
        left = "(row) => row.cells[1].getBoundingClientRect().left"
        assert len({*strip.js(f"return [...$('sums').rows].map({left})")}) == 1

    @pytest.mark.parametrize("what", WRONG)
    def test_it_says_what_is_wrong_with_code_that_raises_or_loops(self, bench, what):
        body, words = WRONG[what]
        bench.write(with_feed(body))
        strip = StripOf(bench)
        verdict = strip.play("ab")
        assert words in verdict + strip.js("return $('alert').textContent")

    def test_what_is_no_example_is_compared_where_there_are_references(self, bench, is_student):
        bench.write(REFERENCES["03"])
        strip = StripOf(bench)
        verdict = strip.play("a\\xf0\\x9f!")
        assert strip.said("own") == "a�!"
        same = "" if is_student else ": the same as the reference, step by step"
        assert verdict == f"Done{same}"
