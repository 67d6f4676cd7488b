"""The form of an answer: `response_format`, `structured_outputs`, and demanded calls.

All of them become a grammar, which is compiled before a token is made. A malformed grammar, or a
grammar that fits no text, is status 400.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool

from mini_vllm.engine import MissingBackendError, Request, StructuredOutputsParams
from mini_vllm.engine.structured_output_manager import expression_of, lark_of
from mini_vllm.server.endpoints.request_body import check_depth
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import ApiError, invalid
from mini_vllm.text.call_grammar import arguments_schema, call_grammar
from mini_vllm.text.reasoning_formats import find_reasoning_format
from mini_vllm.text.whole_json import JsonDepthError, load_json

# The first rule. Comments, texts, schemas and regular expressions may have the same word.
_START = re.compile(r'(//[^\n]*|"(?:[^"\\]|\\.)*"|/(?:[^/\\\n]|\\.)+/)|\bstart\b')
# Former fields of vLLM: 0.33.0 ignores them (entrypoints/serve/engine/protocol.py).
GUIDED = {
    f"guided_{kind}": f'was removed from vLLM, and here; send structured_outputs: {{"{kind}": ...}}'
    for kind in ("choice", "grammar", "json", "regex")
}


class JsonSchemaFormat(msgspec.Struct):
    """A schema, in the form of OpenAI's `json_schema`."""

    schema: dict[str, Any] | bool | None = None
    name: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    """OpenAI's field for the form of an answer: `text`, `json_object` or `json_schema`."""

    type: str
    json_schema: JsonSchemaFormat | None = None


class StructuredOutputs(msgspec.Struct):
    """vLLM's field for the form of an answer. Exactly one kind is set.

    See `StructuredOutputsParams`.
    """

    json: dict[str, Any] | bool | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: Any = None


class ConstrainedRequest(Protocol):
    """A request with both fields."""

    response_format: ResponseFormat | None
    structured_outputs: StructuredOutputs | None


def constraint_of(request: ConstrainedRequest, most_depth: int) -> StructuredOutputsParams | None:
    """Return the form that an answer must have, or None for any text.

    Raises:
        ApiError: 400; it names the field.
    """
    format, options = request.response_format, request.structured_outputs
    formatted = None if format is None else _of_format(format, most_depth)
    if options is None:
        return formatted
    if formatted is not None:
        raise invalid("structured_outputs", "is set beside response_format; leave one of them out")
    return _of_structured_outputs(options, most_depth)


def _of_format(format: ResponseFormat, most_depth: int) -> StructuredOutputsParams | None:
    if format.type == "text":
        return None
    if format.type == "json_object":
        return StructuredOutputsParams(json_object=True)
    if format.type != "json_schema":
        known = "text, json_object or json_schema"
        raise invalid("response_format.type", f"is {format.type!r:.60}; it must be {known}")
    at, named = "response_format.json_schema.schema", format.json_schema
    if named is None or named.schema is None:
        raise invalid(at, "is missing; add it")
    return StructuredOutputsParams(json=_schema(at, named.schema, most_depth))


def _of_structured_outputs(options: StructuredOutputs, most_depth: int) -> StructuredOutputsParams:
    at = "structured_outputs"
    for name in ("structural_tag", "whitespace_pattern", "disable_additional_properties"):
        if getattr(options, name):
            raise invalid(
                f"{at}.{name}",
                "is not implemented; leave it out",
                code="unsupported_parameter",
            )
    try:
        return StructuredOutputsParams(
            json=None if options.json is None else _schema(f"{at}.json", options.json, most_depth),
            regex=options.regex,
            choice=None if options.choice is None else tuple(options.choice),
            grammar=options.grammar,
            json_object=bool(options.json_object),
            disable_any_whitespace=options.disable_any_whitespace,
        )
    except ValueError as error:
        raise invalid(at, str(error)) from None


def _schema(at: str, schema: Any, most_depth: int) -> str:
    if isinstance(schema, str):
        try:
            schema = load_json(schema)
        except JsonDepthError as error:
            raise invalid(at, f"is {error}") from None
        except ValueError as error:
            raise invalid(at, f"is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise invalid(at, f"is {str(schema)[:60]}; a schema is an object")
    # A level of a value takes two levels of its schema: `properties`, and the property.
    check_depth(at, schema, 2 * most_depth)
    return json.dumps(schema)


async def constrain(
    service: Service,
    engine_request: Request,
    request: ConstrainedRequest,
    *,
    demands_call: bool = False,
    parallel: bool = True,
    reasons: bool = False,
) -> Request:
    """Return a request to the engine whose output is constrained to the requested form.

    Args:
        service: compiles the grammar.
        engine_request: what to generate. Its tools are the tools that may be called.
        request: has the form of the answer.
        demands_call: whether there must be a call; there is then no answer besides calls.
        parallel: whether there may be several calls.
        reasons: whether the answer may begin with reasoning, which has no constraint.

    Raises:
        ApiError: 400, the form is malformed or fits no text, and the message has the reason; 501,
            the server lacks the required package.
    """
    constraint = constraint_of(request, service.limits.max_schema_depth)
    if constraint is None and not demands_call:
        return engine_request
    field = "structured_outputs" if request.structured_outputs else "response_format"
    try:
        if demands_call or engine_request.tools:
            answer = None if demands_call or constraint is None else expression_of(constraint)
            engine_request, constraint = _with_calls(service, engine_request, answer, parallel)
        assert constraint is not None
        manager, forwards = service.engine.structured_outputs, service.engine.forwards_grammars
        if reasons and not forwards:
            constraint = _after_reasoning(service, engine_request, constraint)
        if manager.is_possible or not forwards:
            await run_in_threadpool(manager.compile, constraint)
        return replace(
            engine_request, params=replace(engine_request.params, structured_outputs=constraint)
        )
    except MissingBackendError as error:
        raise ApiError(501, str(error), code="missing_dependency") from None
    except ValueError as error:
        fault = await run_in_threadpool(_faulty_tool, service, engine_request.tools or ())
        where = "tools" if demands_call else field
        raise invalid(*(fault or (where, str(error)))) from None


def _faulty_tool(service: Service, tools: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the field and the fault of the first tool whose schema alone cannot be compiled."""
    for tool in tools:
        schema = arguments_schema(tool["function"].get("parameters"))
        try:
            service.engine.structured_outputs.compile(
                StructuredOutputsParams(json=json.dumps(schema))
            )
        except ValueError as error:
            return "tools", f"the parameters of {tool['function']['name']!r:.60}: {error}"
    return None


def _with_calls(
    service: Service, engine_request: Request, answer: str | None, parallel: bool
) -> tuple[Request, StructuredOutputsParams]:
    tools: Sequence[Mapping[str, Any]] = engine_request.tools or ()
    format, grammar = call_grammar(
        service.call_format,
        tools,
        parallel=parallel,
        answer=answer,
        spell=service.engine.structured_outputs.spell,
    )
    if format != service.call_format:
        engine_request = replace(engine_request, tool_format=format)
    return engine_request, StructuredOutputsParams(grammar=grammar)


def _after_reasoning(
    service: Service, engine_request: Request, constraint: StructuredOutputsParams
) -> StructuredOutputsParams:
    """Return the constraint with free reasoning before it: only the answer is constrained."""
    assert service.reasoning_format is not None
    format, lark = find_reasoning_format(service.reasoning_format), lark_of(constraint)
    if sum(not match[1] for match in _START.finditer(lark)) > 1:
        raise ValueError("another rule refers to the rule start, which must follow the reasoning")
    manager = service.engine.structured_outputs
    rules = [_START.sub(lambda match: match[1] or "reasoned_answer", lark)]
    for number, closing in enumerate(format.closings):
        special = manager.special_id(closing)
        # The text of a rule with a suffix ends where the suffix first occurs.
        rule, end = f"reasoning_{number}", "" if special is None else f" <[{special}]>"
        suffix = f"[suffix={json.dumps(closing)}]" if special is None else ""
        rules.append(f"{rule}{suffix}: /(?s:.*)/{end}")
    reasoning = f"({' | '.join(f'reasoning_{n}' for n in range(len(format.closings)))})"
    if not (format.inside if engine_request.thinking is None else engine_request.thinking):
        reasoning = f"(({' | '.join(map(manager.spell, format.openings))}) {reasoning})?"
    start = f"start: {reasoning} /[ \\n]{{0,2}}/ reasoned_answer"
    return StructuredOutputsParams(grammar="\n".join([start, *rules]))
