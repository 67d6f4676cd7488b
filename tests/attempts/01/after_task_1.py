def held_suffix_len(text, marker):
    for n in range(len(marker) - 1, 0, -1):
        if text.endswith(marker[:n]):
            return n
    return 0


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._call = []
        self._pending = ""
        self._in_string = False
        self._escaped = False
        self._index = 0

    @property
    def held(self):
        raise NotImplementedError("lab-01 task 2: held")

    def feed(self, text):
        raise NotImplementedError("lab-01 task 2: feed")

    def flush(self):
        raise NotImplementedError("lab-01 task 4: flush")
