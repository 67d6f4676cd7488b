"""Starters of lab 01 as students have them: each is an edit of the reference solution.

Attributes:
    REFUSED: name -> edit, and a part of the message that refuses it.
    FAILING: name -> edit; only the lab's tests see the fault.
    MADE: name -> edit, and a text at which the code goes wrong, or "".
"""

_IMPORT = "from mini_vllm.text.events import TextDelta, ToolCall"
_FEED = "        events: list[TextDelta | ToolCall] = []\n"


def _before(line):
    return (_FEED, f"        {line}\n{_FEED}")


def _top(lines):
    return (_IMPORT, f"{_IMPORT}\n{lines}")


REFUSED = {
    "a bracket is missing": (("def flush(self)", "def flush(self"), "is not valid Python"),
    "a NUL character": (("import json", "import json\0"), "NUL character"),
    "requests": (_top("import requests"), "line 17 imports 'requests'"),
    "another module of the course": (_top("import mini_vllm.text.utf8"), "line 17 imports"),
    "a file of its own": (_top("from helpers import find"), "line 17 imports 'helpers'"),
    "a relative import": ((_IMPORT, "from .events import TextDelta"), "line 16 imports '.events'"),
    "the module under a name": ((_IMPORT, "import mini_vllm.text.events as e"), "line 16 cannot"),
    "the module from its package": (
        (_IMPORT, "from mini_vllm.text import events"),
        "line 16 cannot",
    ),
    "an event under a name": ((_IMPORT, f"{_IMPORT} as Call"), "line 16 cannot be copied"),
    "all events": ((_IMPORT, "from mini_vllm.text.events import *"), "line 16 cannot be copied"),
    "an import in a method": (_before(_IMPORT), "cannot be copied into one file"),
    "an import under a condition": ((_IMPORT, f"if True:\n    {_IMPORT}"), "line 17 cannot be"),
    "two statements on a line": ((_IMPORT, f"import os; {_IMPORT}"), "line 16 cannot be copied"),
    "an import by name": (
        _top("from importlib import import_module\nimport_module('mini_vllm.text.events')"),
        "line 18 cannot be copied",
    ),
    "an event of its own": (_top("class CallEnd: ..."), "line 17 gives the name 'CallEnd'"),
    "a name of the adapters": (_top("_sys = 1"), "line 17 gives the name '_sys'"),
}
FAILING = {
    "a typo": ("def feed(", "def fed("),
    "no body": _before("raise NotImplementedError"),
    "None in place of a list": ("        return events\n", "        return None\n"),
    "an endless loop": _before("while True: pass"),
    "an endless loop at the import": _top("while True: pass"),
    "exit in feed": _before("raise SystemExit"),
    "exit at the import": _top("raise SystemExit"),
    "input": _top("input()"),
}
MADE = {
    "a print": (_before("print(text)"), ""),
    "annotations as strings": (("import json\n", "from __future__ import annotations\n"
                                "import json\n\n\ndef _later(x: Later): ...\n"), ""),
    "a main block": (_top("if __name__ == '__main__':\n    raise SystemExit('main')"), ""),
    "a helper with a common name": (_top("def _first(): raise ValueError"), ""),
    "an alias for the events": (_top("Event = TextDelta | ToolCall"), ""),
    "an exception": (_before("if 'boom' in text: {}[text]"), "So boom <tool_call> end"),
    "an exception inside a call": (
        _before("if 'boom' in text: raise ValueError('a\\nb')"),
        'So <tool_call>{"name": "boom", "arguments": {}}</tool_call> end',
    ),
    "recursion": (_before("if 'boom' in text: self.feed(text)"), "a boom"),
    "a string among the events": (_before("if 'boom' in text: return [text]"), "a boom"),
    "None for some texts": (_before("if 'boom' in text: return None"), "a boom"),
    "an exception in flush": (
        ("        text = self.held\n", "        text = self.held\n"
         "        assert 'boo' not in text\n"),
        "a <tool_call>boo",
    ),
    "an exception in held": (
        ('        return "".join(self._call) + self._pending\n',
         '        assert not self._pending\n        return "".join(self._call)\n'),
        "a <tool",
    ),
    "a second call 0": (
        ("        self._index += 1\n", ""),
        '<tool_call>{"name": "f", "arguments": {}}</tool_call>boom' * 2,
    ),
}  # fmt: skip


def edited(source, edit):
    """Return the source with an edit, which fits once at least."""
    find, replace = edit
    assert find in source
    return source.replace(find, replace, 1)
