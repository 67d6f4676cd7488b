from mini_vllm.text.events import TextDelta, ToolCall


def test_lab03_trace(make):
    detokenizer = make("StreamingDetokenizer")
    steps = [
        (0xC3, "", b"\xc3"),
        (0xA9, "é", b""),
        (0xE2, "", b"\xe2"),
        (0x82, "", b"\xe2\x82"),
        (0x41, "\ufffdA", b""),
        (0xFF, "\ufffd", b""),
        (0xF0, "", b"\xf0"),
    ]
    for token, emitted, held in steps:
        assert detokenizer.feed(token) == emitted
        assert detokenizer.held == held
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_lab04_trace(make):
    matcher = make("StopStringMatcher", ["aab"])
    assert [matcher.feed(char) for char in "aaab"] == ["", "", "a", ""]
    assert matcher.held == ""
    assert matcher.matched == "aab"
    assert matcher.feed("more") == ""
    matcher.flush()
    assert matcher.matched == "aab"


def test_lab01_trace(make):
    parser = make("StreamingToolParser")
    assert parser.feed('Look: <tool_call>{"name": "f", "argu') == [TextDelta("Look: ")]
    events = parser.feed('ments": {"x": 1}}</tool_call> Done')
    assert events == [ToolCall(0, "f", '{"x": 1}'), TextDelta(" Done")]
    assert parser.feed("<tool") == []
    assert parser.feed("box>") == [TextDelta("<toolbox>")]
    assert parser.feed('<tool_call>{"name"') == []
    assert parser.flush() == [TextDelta('<tool_call>{"name"')]
