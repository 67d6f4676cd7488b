"""The strip below the bench, in Chromium."""

import pytest
from bench_page import Bench, StripOf, pass_first
from course_code import BUGS, FIRST, REFERENCES, with_feed


def test_the_strip_shows_the_readers_own_code_beside_the_others(bench, is_student):
    bench.write(BUGS["decode-alone"])
    strip = StripOf(bench)
    verdict = strip.play()
    assert "�" in strip.said("own")
    assert strip.said("reference").startswith("Grüße! 你好 🚀")
    assert "your code leaves the reference" in verdict
    bench.write(REFERENCES["03"])
    assert strip.play() == "Done: the same as the reference, step by step"
    assert strip.said("own") == strip.said("reference")
    verdict = strip.play("a\\xf0\\x9f!")
    assert strip.said("own") == "a�!"
    # In the student's site outputs are stored for the examples only.
    assert verdict == ("Done" if is_student else "Done: the same as the reference, step by step")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "endless loop"),
        ("raise KeyError(token_id)", "KeyError: 97"),
        ("import os; os._exit(0)", "os._exit"),
    ],
)
def test_the_strip_says_what_is_wrong_with_code_that_raises_or_loops(bench, body, words):
    bench.write(with_feed(body))
    strip = StripOf(bench)
    verdict = strip.play("ab")
    assert words in verdict + strip.js("return $('alert').textContent")
    bench.write(REFERENCES["03"])
    strip.play("ab")
    assert strip.said("own") == "ab"


def test_the_pipeline_has_the_panels_of_the_servers_page(driver, url, is_student):
    if is_student:
        pass_first(driver, url, FIRST["05"])
    bench = Bench(driver, url, "05")
    bench.write(REFERENCES["05"])
    strip = StripOf(bench)
    strip.play()
    assert strip.js("return $('answer').innerText").startswith("Grüße 🚀")
    assert strip.js("return $('answer').querySelector('.name').textContent") == "get_weather"
    assert strip.js("return $('finish').textContent") == "tool_calls"
    layers = strip.js("return [...$('held').tBodies[0].rows].map((row) => row.dataset.layer)")
    assert layers == ["tokens", "stops", "calls"]
    assert "END" not in strip.js("return $('answer').textContent")
