from mini_vllm.text.events import TextDelta, ToolCall


def test_lab03_hello(make):
    detokenizer = make("StreamingDetokenizer")
    assert "".join(detokenizer.feed(byte) for byte in b"Hello, world!") == "Hello, world!"


def test_lab03_emoji(make):
    detokenizer = make("StreamingDetokenizer")
    assert "".join(detokenizer.feed(byte) for byte in "Hi 🚀!".encode()) == "Hi 🚀!"


def test_lab04_end(make):
    matcher = make("StopStringMatcher", ["END"])
    assert matcher.feed("the END") == "the "
    assert matcher.matched == "END"


def test_lab04_no_stop(make):
    matcher = make("StopStringMatcher", ["END"])
    assert matcher.feed("hello") + matcher.flush() == "hello"


def test_lab01_call(make):
    parser = make("StreamingToolParser")
    events = parser.feed('<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    assert events == [ToolCall(0, "f", "{}")]


def test_lab01_text(make):
    assert make("StreamingToolParser").feed("hello") == [TextDelta("hello")]
