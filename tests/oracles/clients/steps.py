"""Runs one client's program, in the environment of that client, and prints what came of each step.

    python steps.py PROGRAM URL

A program has functions, plain or async: `chat(url, prompt)` returns a text, `stream(url, prompt)`
yields its pieces, `tools(url, prompt, tool, call)` lets the model call `call(name, arguments)` and
returns what it says at the end, and `structured(url, prompt, model)` returns an object of a
pydantic model, or its JSON. A step without a function is left out. The answers are those of
`script.toml`, as `expected.json` has them. One line of JSON says `ok` of each step, or what was
wrong.
"""

import asyncio
import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))


def check_chat(program, url):
    """A whole answer."""
    same(result_of(program.chat(url, "Greet me.")), EXPECTED["greeting"])


def check_stream(program, url):
    """A streamed answer, in more than one piece."""
    pieces = [piece for piece in result_of(program.stream(url, "Greet me.")) if piece]
    same("".join(pieces), EXPECTED["greeting"])
    assert len(pieces) > 2, f"came in {len(pieces)} pieces"


def check_tools(program, url):
    """A call, its result sent back, and the answer to that."""
    calls = []

    def call(name, arguments):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        calls.append((name, arguments))
        return EXPECTED["result"]

    tool = EXPECTED["tool"]
    said = result_of(program.tools(url, "What is the weather in Quillon?", tool, call))
    same(calls, [("get_weather", EXPECTED["arguments"])])
    same(said, EXPECTED["forecast"])


def check_structured(program, url):
    """An object of a schema, by the client's own means."""
    import pydantic

    config = pydantic.ConfigDict(extra="forbid")
    model = pydantic.create_model(
        EXPECTED["tool"]["name"], __config__=config, city=(str, ...), days=(int, ...)
    )
    found = result_of(program.structured(url, "What is the weather in Quillon? As JSON.", model))
    found = model.model_validate_json(found) if isinstance(found, str) else found
    same(found.model_dump(), EXPECTED["arguments"])


def same(found, expected):
    """Demand that both are equal."""
    assert found == expected, f"{found!r} instead of {expected!r}"


def result_of(answer):
    """Return what a function returned, or all that it yields, async or not."""
    if inspect.isasyncgen(answer):

        async def read():
            return [piece async for piece in answer]

        return asyncio.run(read())
    if inspect.iscoroutine(answer):
        return asyncio.run(answer)
    return list(answer) if inspect.isgenerator(answer) else answer


def main():
    """Run all steps; print one line."""
    name, url = sys.argv[1:]
    sys.path.insert(0, str(HERE / "programs"))
    said = {}
    for step in ("chat", "stream", "tools", "structured"):
        try:
            program = importlib.import_module(name)
            if hasattr(program, step):
                globals()[f"check_{step}"](program, url)
                said[step] = "ok"
        except Exception as error:
            traceback.print_exc()
            said[step] = f"{type(error).__name__}: {error}"
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
