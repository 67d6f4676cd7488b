"""The process in which one chat template runs, under limits that it sets on itself.

`ChatTemplate` starts it as `python -I FILE` and talks to it in frames: eight bytes of length, then
JSON in UTF-8. The first frame is the set-up; each further one is a dict of variables to render
with, or null to compile only. A trusted template has no process: `ChatTemplate` then imports this
module and calls `reply_to`. The reply has one of three shapes: `{"text", "special", "clean"}`,
`{"error"}` or `{"limit"}`, which names the limit that was exceeded. The process ends at the end of
its input. It imports jinja2, the standard library, and only the marks from its own package.

But:
- The parent measures the time; the alarm in this process is for a parent that has ended.
- The process is not a jail: it limits resources, which jinja's sandbox does not, but has its user's
  rights.
"""

import contextlib
import json
import signal
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.environment import Template
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

if __name__ == "__main__":
    # Started as a file, and isolated: the path lacks the package, or has another version of it.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mini_vllm.chat_template.marks import TAKE_OFF, MarkOwnText, Marks

_LONGEST_MESSAGE = 2000


class Refused(Exception):
    """The template itself called `raise_exception`."""


class OutputTooLong(Exception):
    """The text grew past its limit."""


class GenerationBlocks(Extension):
    """`{% generation %}` … `{% endgeneration %}`: the assistant's text, for training."""

    tags = {"generation"}  # noqa: RUF012 (how jinja declares them)

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's body, with variables of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def raise_exception(message: Any) -> None:
    """Let a template refuse its input.

    Raises:
        Refused: always.
    """
    raise Refused(str(message))


def strftime_now(pattern: str) -> str:
    """Return the local date and time in `strftime`'s format."""
    return datetime.now().strftime(pattern)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return plain JSON; jinja's own filter would escape it for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def make_environment() -> ImmutableSandboxedEnvironment:
    """Return the environment that templates of the Hugging Face hub are written for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[GenerationBlocks, "jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


class Renderer:
    """One template: compiled at its first use, and rendered up to `output_size` characters.

    Args:
        source: the template.
        output_size: the most characters.
        special_tokens: the special tokens that count if the template writes them.
        variables: the template's own variables, such as `bos_token`; a call may override them.
    """

    def __init__(
        self,
        source: str,
        output_size: int,
        special_tokens: Iterable[str] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._output_size = output_size
        self._variables = dict(variables or {})
        self._marks = Marks(special_tokens)
        self._no_marks = Marks(())
        self._environment = make_environment()
        self._environment.filters[TAKE_OFF] = self._marks.take_off
        self._templates: dict[Marks, Template] = {}

    def compiled(self, *, odd: bool = False) -> Template:
        """Return the compiled template, with marks unless the call itself has lone surrogates.

        Raises:
            TemplateSyntaxError: the source is not a template.
        """
        marks = self._no_marks if odd else self._marks
        if marks not in self._templates:
            tree = MarkOwnText(marks).visit(self._environment.parse(self._source))
            tree.set_environment(self._environment)
            self._templates[marks] = self._environment.from_string(tree)
        return self._templates[marks]

    def render(self, variables: dict[str, Any], *, odd: bool = False) -> dict[str, Any]:
        """Return the text, and the spans of its special tokens.

        `clean` is whether the text has no special tokens except the template's own.

        Raises:
            OutputTooLong: the text is longer than the limit.
            Exception: any exception that the template raises.
        """
        template = self.compiled(odd=odd)
        marks = self._no_marks if odd else self._marks
        own = {
            name: marks.put_on(value) if isinstance(value, str) else value
            for name, value in self._variables.items()
        }
        size, pieces = 0, []
        # `generate` would do the same, but it hides the frames that `_line` reads.
        for piece in template.root_render_func(template.new_context({**own, **variables})):
            size += len(piece)
            if size > self._output_size:
                raise OutputTooLong
            pieces.append(piece)
        text = "".join(pieces)
        if odd:
            return {"text": text, "special": [], "clean": False}
        text, special, clean = marks.read(text, _roles(variables))
        return {"text": text, "special": special, "clean": clean}

    def describe(self, error: Exception) -> str:
        """Return the message of an error in the usual letters."""
        return str(self._marks.take_off(_describe(error)))


def _roles(variables: dict[str, Any]) -> set[str]:
    messages = variables.get("messages")
    turns = messages if isinstance(messages, list) else []
    roles = (turn.get("role") for turn in turns if isinstance(turn, dict))
    return {role for role in roles if isinstance(role, str) and role.isidentifier()}


def _line(error: Exception) -> int | None:
    """Return the innermost line of the template that an error passed through."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        template = step.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            line = template.get_corresponding_lineno(step.tb_lineno)
        step = step.tb_next
    return line


def _describe(error: Exception) -> str:
    if isinstance(error, Refused):
        return str(error)[:_LONGEST_MESSAGE]
    kind = type(error)
    name = "" if kind.__module__.startswith("jinja2") else f"{kind.__name__}: "
    # Python's own SyntaxError would add a line of the code that jinja generated.
    detail = error.msg if isinstance(error, SyntaxError) else str(error)
    message = name + detail[:_LONGEST_MESSAGE]
    line = _line(error)
    return message if line is None else f"line {line}: {message}"


def answer(
    renderer: Renderer, variables: dict[str, Any] | None, *, odd: bool = False
) -> dict[str, Any]:
    """Return the reply to one request; errors of the template are replies, not exceptions.

    Args:
        renderer: the renderer of the template.
        variables: the variables of the request, or None to compile only.
        odd: whether the variables have lone surrogates.
    """
    try:
        if variables is None:
            renderer.compiled()
            return {"text": ""}
        return renderer.render(variables, odd=odd)
    except OutputTooLong:
        return {"limit": "output"}
    except MemoryError:
        return {"limit": "memory"}
    except RecursionError:
        return {"limit": "nesting"}
    except Exception as error:
        return {"error": renderer.describe(error)}


def reply_to(renderer: Renderer, request: bytes) -> dict[str, Any]:
    """Return the reply to one request in JSON; see `answer`."""
    try:
        return answer(renderer, json.loads(request.decode("utf-8")))
    except UnicodeDecodeError:
        # A lone surrogate in a message arrives unchanged.
        return answer(renderer, json.loads(request.decode("utf-8", "surrogatepass")), odd=True)


def limit_self(memory: int) -> None:
    """Set the limits that hold for the life of the process, if the platform has them."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read() -> bytes:
    """Return the next request."""
    header = sys.stdin.buffer.read(8)
    if len(header) < 8:
        raise EOFError
    size = int.from_bytes(header, "big")
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _write(value: Any, most: int = sys.maxsize) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(data) > most:
        data = b'{"limit": "output"}'
    sys.stdout.buffer.write(len(data).to_bytes(8, "big") + data)
    sys.stdout.buffer.flush()


def main() -> None:
    """Serve requests until the parent closes its end."""
    setup = json.loads(_read().decode("utf-8", "surrogatepass"))
    renderer = Renderer(
        setup["template"], setup["output_size"], setup["special_tokens"], setup["variables"]
    )
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    limit_self(setup["memory"])
    _write({"ready": True})
    try:
        while True:
            request = _read()
            signal.setitimer(signal.ITIMER_REAL, setup["seconds"])
            _write(reply_to(renderer, request), setup["reply_size"])
            signal.setitimer(signal.ITIMER_REAL, 0)
    except EOFError:
        return
    except MemoryError:
        # Too little memory to read the request or to reply; the parent starts a new worker.
        _write({"limit": "memory"})


if __name__ == "__main__":
    main()
