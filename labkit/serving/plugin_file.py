"""A student's parser as one file that vLLM and SGLang load, and that needs nothing of this course.

The file has the event types, the student's code as it is, and the adapters of `upstream/adapters`.
Each adapter is a function there, so its names cannot meet those of the student's code.
"""

import ast
import io
import re
import symtable
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit.course.lab import Lab, Serves
from labkit.errors import LoadFailure
from labkit.running.source import check_imports

EVENTS = "mini_vllm.text.events"
# The name of the file and of its parsers, unless the student chooses another.
NAME = "my_parser"
FIRST_LINE = 'r"""Parsers for vLLM 0.33.0 and SGLang 0.5.23: '
_ADAPTERS = "upstream.adapters"
_FILES = (
    "guarded_parser", "vllm_tools", "vllm_reasoning", "sglang_tools", "sglang_reasoning",
    "registration",
)  # fmt: skip
# The roles that an engine takes a parser for.
_CALLS, _REASONING = "calls", "reasoning"
# The events that the adapters read.
_READ = (
    "TextDelta", "ReasoningDelta", "ToolCall", "CallStart", "ArgsDelta", "CallEnd", "Malformed",
)  # fmt: skip
_OURS = (
    *(f"_{name}" for name in _FILES), "_SimpleNamespace", "_sys", "dataclass", "register_in_vllm",
    "register_in_sglang", "serve_in_sglang",
)  # fmt: skip

_HEAD = (
    FIRST_LINE
    + '''`{name}`, made of {code}.

`make plugin N={number}` wrote this file: the event types, your code, the adapters for the engines,
and their registration. It needs only Python and the engine. Run the commands in the folder of this
file: vLLM takes `{name}.py` or an absolute path, and stops with a TypeError at `./{name}.py`.
If this file has an error, vLLM logs it and then calls the parser invalid.

vLLM:

    vllm serve MODEL {flags}

vLLM without a GPU: a server that turns token ids into chat answers, at
/v1/chat/completions/derender. MODEL may be a folder with a configuration and a tokenizer only:
`upstream/derender.py` of the course writes such a folder, and sends the server a text.

    VLLM_TARGET_DEVICE=cpu vllm launch render MODEL {flags}

SGLang, which has no flag for parsers:

    python -c 'import {name}; {name}.serve_in_sglang()' --model-path MODEL \\
        {names}

Tried with vLLM 0.33.0 and SGLang 0.5.23, without a GPU: the parsers in both, `vllm launch render`
over HTTP. Not tried: `vllm serve` with a model, SGLang's server.

Promised: it loads by vLLM 0.33.0's own flags, and a stream is the same answer as the whole text,
for {streams}.
Not promised: other versions, other formats, forced calls (`tool_choice` "required" or a function:
the text is parsed, but nothing makes the model write a call), a family's defaults for reasoning,
use in production.

If the code below raises an exception, the log has one line about it, and the rest of that answer is
passed on unparsed, as content. An endless loop is not ended.
"""
'''
)
_STREAMS = {
    True: "Hermes' tags and `<think>`",
    False: "Hermes' tags",
}
_TAIL = '''

# Registration.


def register_in_vllm() -> None:
    """Give vLLM the parsers. It imports this file for its flags, which calls this function."""
    _registration().register_in_vllm(
        "{name}", {makers}
    )


def register_in_sglang() -> None:
    """Give SGLang the parsers, for an entry point of the group `sglang.srt.plugins`."""
    _registration().register_in_sglang(
        "{name}", {makers}
    )


def serve_in_sglang() -> None:
    """Give SGLang the parsers and start its server with the arguments of the command line."""
    import runpy

    register_in_sglang()
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)


if "vllm" in _sys.modules:
    register_in_vllm()
'''


def plugged_rows(lab: Lab) -> dict[str, Serves]:
    """Return the rows of a lab that an engine can load, by role; {} if the lab has none."""
    rows = {row.role: row for row in lab.serves if row.role in (_CALLS, _REASONING)}
    return rows if _CALLS in rows else {}


def adapter_files(root: Path) -> list[Path]:
    """Return the files of the course that `make_plugin` copies, but for the event types."""
    return [_adapter(root, file) for file in _FILES]


def make_plugin(lab: Lab, source: bytes, shown: str, name: str, root: Path) -> str:
    """Return the text of the file.

    Args:
        lab: a lab with `plugged_rows`.
        source: the student's code.
        shown: the name of its file, for messages.
        name: the name of the parsers and of the file, without `.py`.
        root: the repository.

    Raises:
        LoadFailure: the code imports something that cannot be inlined, or uses a name of the file.
    """
    check_imports(source, shown, lab.given)
    text = _decoded(source)
    tree = ast.parse(text, shown)
    imports = list(_imports_of_events(tree, shown))
    imported = {alias.name for node in imports for alias in node.names}
    futures = [
        node
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    events = [*dict.fromkeys((*_READ, *sorted(imported)))]
    _check_names(text, tree, shown, events)
    rows = plugged_rows(lab)
    parts = [
        _head(lab, shown, name, reasoning=_REASONING in rows),
        *([_future(futures)] if futures else []),
        "import sys as _sys\nfrom dataclasses import dataclass\n"
        "from types import SimpleNamespace as _SimpleNamespace\n",
        f"# The event types of the course.\n\n\n{_events(root, events)}",
        f"# The code of {shown}, as it is; only imports of the course are comments.\n",
        _without(text, [*imports, *futures]).strip("\n") + "\n",
        "# The adapters. Each is a function, so its names cannot meet those of the code above.\n",
        *(_as_function(root, file) for file in _FILES if _is_needed(file, rows)),
    ]
    return "\n\n".join(parts) + _TAIL.format(name=name, makers=_makers(rows))


def _is_needed(file: str, rows: dict[str, Serves]) -> bool:
    return _REASONING in rows or not file.endswith(_REASONING)


def _head(lab: Lab, shown: str, name: str, *, reasoning: bool) -> str:
    files = [f"--tool-parser-plugin {name}.py --tool-call-parser {name}"]
    names = [f"--tool-call-parser {name}"]
    if reasoning:
        files.append(f"--reasoning-parser-plugin {name}.py --reasoning-parser {name}")
        names.append(f"--reasoning-parser {name}")
    return _HEAD.format(
        name=name,
        code=f"{lab.label}'s {shown}",
        number=lab.number,
        flags=" \\\n        ".join(["--enable-auto-tool-choice", *files]),
        names=" ".join(names),
        streams=_STREAMS[reasoning],
    )


def _makers(rows: dict[str, Serves]) -> str:
    if _REASONING not in rows:
        return f"{rows[_CALLS].class_name}, None"
    row = rows[_REASONING]
    (inside,) = (key for key, value in row.arguments.items() if value == "starts_inside")
    return f"{rows[_CALLS].class_name}, lambda inside: {row.class_name}({inside}=inside)"


def _decoded(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _imports_of_events(tree: ast.Module, shown: str) -> Iterator[ast.ImportFrom]:
    """Yield the statements that import event types.

    Raises:
        LoadFailure: one of them has a form that cannot be inlined.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # An argument, as in `import_module("...")`; a docstring names modules within its text.
            modules = [node.value]
        else:
            continue
        if not any(module.split(".")[0] == "mini_vllm" for module in modules):
            continue
        # A statement inside of another shares its lines.
        plain = (
            isinstance(node, ast.ImportFrom)
            and node.module == EVENTS
            and not any(alias.asname or alias.name == "*" for alias in node.names)
            and not any(_share_lines(node, other) for other in tree.body if other is not node)
        )
        if not plain:
            raise LoadFailure(
                f"{shown} line {node.lineno} cannot be copied into one file. Import the event "
                "types at the top of the file, in a statement of its own and without `as`, for "
                f"example: from {EVENTS} import TextDelta",
                node.lineno,
            )
        assert isinstance(node, ast.ImportFrom)
        yield node


def _share_lines(node: ast.stmt, other: ast.stmt) -> bool:
    ends = (node.end_lineno or node.lineno, other.end_lineno or other.lineno)
    return node.lineno <= ends[1] and other.lineno <= ends[0]


def _check_names(text: str, tree: ast.Module, shown: str, events: Iterable[str]) -> None:
    """Check that the code binds no name of the file.

    Raises:
        LoadFailure: it does; the message has the name and its line.
    """
    for symbol in symtable.symtable(text, shown, "exec").get_symbols():
        name = symbol.get_name()
        ours = name in _OURS and (symbol.is_assigned() or symbol.is_imported())
        # The student may import this function, too.
        ours = ours and (name != "dataclass" or symbol.is_assigned())
        if ours or (name in events and symbol.is_assigned()):
            line = _line_of(name, tree)
            raise LoadFailure(
                f"{shown} line {line} gives the name {name!r} another meaning, which the plug-in "
                "needs itself: choose another name",
                line,
            )


def _line_of(name: str, tree: ast.Module) -> int:
    for node in ast.walk(tree):
        named = getattr(node, "name", None) == name or getattr(node, "asname", None) == name
        stored = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        if named or stored:
            return int(getattr(node, "lineno", 1))
    return 1


def _future(nodes: Iterable[ast.ImportFrom]) -> str:
    names = dict.fromkeys(alias.name for node in nodes for alias in node.names)
    return f"from __future__ import {', '.join(names)}\n"


def _without(text: str, nodes: Iterable[ast.stmt]) -> str:
    """Return a text in which the lines of some statements are comments."""
    lines = text.split("\n")
    for node in nodes:
        for number in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[number] = f"# {lines[number]}".rstrip()
    return "\n".join(lines)


def _events(root: Path, names: Iterable[str]) -> str:
    """Return the definitions of some event types, in the order of the course's file."""
    text = root.joinpath(*EVENTS.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    lines, chosen = text.split("\n"), {*names}
    if "Event" in chosen:
        chosen |= {*_READ}
    parts = []
    for node in ast.parse(text).body:
        first = node.lineno
        if isinstance(node, ast.ClassDef):
            name = node.name
            first = min([first, *(decorator.lineno for decorator in node.decorator_list)])
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            continue
        if name in chosen:
            parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(parts) + "\n"


def _adapter(root: Path, file: str) -> Path:
    return root.joinpath(*_ADAPTERS.split("."), f"{file}.py")


def _as_function(root: Path, file: str) -> str:
    """Return an adapter as a function that returns the adapter's names.

    The adapter's imports of the course become calls of such functions.
    """
    text = _adapter(root, file).read_text(encoding="utf-8")
    lines = text.rstrip("\n").split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.startswith((EVENTS, _ADAPTERS)):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = [*_calls_for(node), *[""] * (last - first)][: last - first]
    body = textwrap.indent("\n".join(lines), "    ")
    body = re.sub(r"\n{2,}", "\n\n", body)
    return f"def _{file}():\n{body}\n\n    return _SimpleNamespace(**locals())\n"


def _calls_for(node: ast.ImportFrom) -> list[str]:
    """Return the statements, on one line, that replace an import of an adapter."""
    names = [alias.name for alias in node.names]
    indent = " " * node.col_offset
    if node.module == EVENTS:
        return []
    if node.module == _ADAPTERS:
        return [indent + "; ".join(f"{name} = _{name}()" for name in names)]
    module = str(node.module).rpartition(".")[2]
    values = ", ".join(f"_{module}().{name}" for name in names)
    return [f"{indent}{', '.join(names)} = {values}"]
