"""Parameters of tools as people use them: the names and shapes of public tools, in our words."""

from typing import Any

S: dict[str, Any] = {"type": "string"}
INT: dict[str, Any] = {"type": "integer"}
N: dict[str, Any] = {"type": "number"}
B: dict[str, Any] = {"type": "boolean"}
A = {"type": "array", "items": S}


def of(required: str = "", closed: bool = False, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {**schema, "additionalProperties": False} if closed else schema


def among(*values: Any) -> dict[str, Any]:
    """Return the schema of a text among some."""
    return {"type": "string", "enum": [*values]}


def list_of(items: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **more}


def optional(schema: Any) -> dict[str, Any]:
    """Return the schema that pydantic writes for an optional field."""
    return {"anyOf": [schema, {"type": "null"}], "default": None}


PAGE = {"page": {**INT, "minimum": 1}, "perPage": {**INT, "minimum": 1, "maximum": 100}}
WHEN = {"dateTime": {**S, "format": "date-time"}, "timeZone": S}
REPO = {"owner": S, "repo": S}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": of("name", name=S, children=list_of({"$ref": "#/$defs/node"}))},
}
EXPRESSION = {
    "$defs": {
        "sum": of("left right", True, left={"$ref": "#/$defs/any"}, right={"$ref": "#/$defs/any"}),
        "any": {"anyOf": [N, {"$ref": "#/$defs/sum"}]},
    },
    **of("expression", True, expression={"$ref": "#/$defs/any"}),
}
LINKED_LIST = {
    "$defs": {"node": of("value next", True, value=N,
                         next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
    **of("linked_list", True, linked_list={"$ref": "#/$defs/node"}),
}  # fmt: skip
FOLDERS = {
    "$defs": {
        "file": of("kind name", True, kind={"const": "file"}, name=S),
        "folder": of("kind entries", True, kind={"const": "folder"}, entries=list_of(
            {"anyOf": [{"$ref": "#/$defs/folder"}, {"$ref": "#/$defs/file"}]}, minItems=1)),
    },
    **of("root", True, root={"$ref": "#/$defs/folder"}),
}  # fmt: skip

TOOLS: dict[str, Any] = {
    "get_weather": of("location", location=S, unit=among("celsius", "fahrenheit")),
    "get_weather strict": of("location units", True, location=S, units=among("c", "f")),
    "get_stock_price": of("ticker", ticker={**S, "pattern": "^[A-Z]{1,5}$"}),
    "get_delivery_date": of("order_id", True, order_id={**S, "description": "An order"}),
    "send_email": of("to subject body", True, to={**S, "format": "email"}, subject=S, body=S, cc=A),
    "search_knowledge_base": of(
        "query options", True, query=S,
        options=of("num_results domain_filter sort_by", True, num_results=N,
                   domain_filter={"type": ["string", "null"]},
                   sort_by={"type": ["string", "null"], "enum": ["relevance", "date", None]}),
    ),
    "bash": of(command=S, restart=B),
    "str_replace_editor": of(
        "command path", command=among("view", "create", "str_replace", "insert", "undo_edit"),
        path=S, file_text=S, insert_line=INT, old_str=S,
        view_range=list_of(INT, minItems=2, maxItems=2),
    ),
    "computer": of("action", action=among("key", "type", "mouse_move", "left_click"), text=S,
                   coordinate=list_of(INT, minItems=2, maxItems=2)),
    "web_search": of("query", query={**S, "minLength": 2}, allowed_domains=A, blocked_domains=A),
    "read_file": of("path", path=S, head=N, tail=N),
    "read_multiple_files": of("paths", paths=A),
    "write_file": of("path content", True, path=S, content=S),
    "edit_file": of("path edits", True, path=S, dryRun={**B, "default": False},
                    edits=list_of(of("oldText newText", True, oldText=S, newText=S))),
    "directory_tree": of("path", path=S, excludePatterns={**A, "default": []}),
    "search_files": of("path pattern", path=S, pattern=S, excludePatterns=A),
    "create_issue": of("owner repo title", **REPO, title=S, body=S, assignees=A, labels=A,
                       milestone=N),
    "search_repositories": of("query", query=S, **PAGE),
    "create_pull_request": of("owner repo title head base", **REPO, title=S, head=S, base=S,
                              draft=B, maintainer_can_modify=B),
    "push_files": of("owner repo branch files message", **REPO, branch=S, message=S,
                     files=list_of(of("path content", path=S, content=S))),
    "create_review": of("event body", body=S, event=among("APPROVE", "REQUEST_CHANGES", "COMMENT"),
                        comments=list_of({"anyOf": [of("path position body", path=S, position=N,
                                                       body=S), of("path line body", path=S, line=N,
                                                                   body=S)]})),
    "slack_post_message": of("channel_id text", channel_id=S, text=S),
    "slack_add_reaction": of("channel timestamp reaction", channel=S, reaction=S,
                             timestamp={**S, "pattern": r"^\d{10}\.\d{6}$"}),
    "create_event": of("summary start end", summary=S, start=of("dateTime", **WHEN),
                       end=of("dateTime", **WHEN), location=S,
                       attendees=list_of(of("email", email={**S, "format": "email"})),
                       reminders=of(useDefault=B, overrides=list_of(
                           of("method minutes", method=among("email", "popup"), minutes=INT)))),
    "freebusy": of("timeMin timeMax", timeMin={**S, "format": "date-time"},
                   timeMax={**S, "format": "date-time"}, items=list_of(of("id", id=S))),
    "stripe_create_customer": of("name", True, name=S, email={**S, "format": "email"}),
    "stripe_create_price": of("product unit_amount currency", product=S, currency=S,
                              unit_amount={**INT, "minimum": 0}),
    "notion_query_database": of(
        "database_id", database_id={**S, "format": "uuid"}, page_size={**INT, "maximum": 100},
        filter={"type": "object", "additionalProperties": True},
        sorts=list_of(of("property direction", property=S,
                         direction=among("ascending", "descending"))),
    ),
    "jira_create_issue": of("project_key summary issue_type", summary=S, issue_type=S,
                            project_key={**S, "pattern": "^[A-Z][A-Z0-9]+$"},
                            additional_fields={"type": "object", "default": {}}),
    "kubectl_scale": of("name replicas", name=S, replicas={**INT, "minimum": 0},
                        namespace={**S, "default": "default"}),
    "kubernetes_create_pod": of("name image", name=S, image=S,
                                ports=list_of(of("containerPort", containerPort={
                                    **INT, "minimum": 1, "maximum": 65535})),
                                labels={"type": "object", "additionalProperties": S}),
    "run_sql": of("sql", sql=S, parameters=list_of({"type": ["string", "number", "null"]}),
                  timeout_ms={**INT, "exclusiveMinimum": 0}),
    "list_tables": of("", True),
    "brave_web_search": of("query", query={**S, "maxLength": 400},
                           count={**N, "minimum": 1, "maximum": 20, "default": 10}),
    "fetch": of("url", url={**S, "format": "uri"}, raw={**B, "default": False},
                max_length={**INT, "exclusiveMinimum": 0, "exclusiveMaximum": 1000000}),
    "create_entities": of("entities", entities=list_of(
        of("name entityType observations", name=S, entityType=S, observations=A), minItems=1)),
    "create_relations": of("relations", relations=list_of(
        {"$ref": "#/$defs/relation"})) | {"$defs": {"relation": {
            **of("from to relationType", to=S, relationType=S),
            "properties": {"from": S, "to": S, "relationType": S}}}},
    "sequentialthinking": of("thought nextThoughtNeeded thoughtNumber totalThoughts", thought=S,
                             nextThoughtNeeded=B, thoughtNumber={**INT, "minimum": 1},
                             totalThoughts={**INT, "minimum": 1}),
    "browser_click": of("element ref", True, element=S, ref=S, doubleClick=B,
                        modifiers=list_of(among("Alt", "Control", "Meta", "Shift"))),
    "browser_fill_form": of("fields", True, fields=list_of(of(
        "name type ref value", True, name=S, ref=S, value=S,
        type=among("textbox", "checkbox", "radio", "combobox", "slider")))),
    "convert_time": of("source_timezone time target_timezone", source_timezone=S,
                       time={**S, "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}, target_timezone=S),
    "book_flight": of("origin destination depart passengers", True,
                      origin={**S, "pattern": "^[A-Z]{3}$"},
                      destination={**S, "pattern": "^[A-Z]{3}$"},
                      depart={**S, "format": "date"}, cabin=optional(among("economy", "business")),
                      passengers={**INT, "minimum": 1, "maximum": 9}),
    "set_thermostat": of("celsius", celsius={**N, "minimum": 5, "maximum": 30}, room=S),
    "todo_write": of("todos", todos=list_of(of(
        "content status id", content={**S, "minLength": 1}, id=S,
        status=among("pending", "in_progress", "completed")))),
    "calendar_event (pydantic)": {"title": "CalendarEvent", **of(
        "name date participants", name={**S, "title": "Name"}, date=S, participants=A)},
    "math_reasoning": of("steps final_answer", True, final_answer=S,
                         steps=list_of(of("explanation output", True, explanation=S, output=S))),
    "user_interface": TREE,
    "calculate": EXPRESSION,
    "extract_person": {"oneOf": [
        of("kind name", True, kind={"const": "person"}, name=S, age=optional(INT)),
        of("kind title", True, kind={"const": "company"}, title=S, founded=INT)]},
    "metadata": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
    "set_headers": {"type": "object", "additionalProperties": S, "minProperties": 4},
    "sign_in": of("account_id password", account_id={**S, "format": "int64"},
                  password={**S, "format": "password"}, scopes={**A, "uniqueItems": False}),
    "set_env (zod)": of("env", env={"type": "object", "propertyNames": S,
                                    "additionalProperties": S}),
    "edit_schema": of("format propertyNames kind", format=S, propertyNames=S,
                      kind={"enum": [{"format": "int64"}]}),
    "linked_list": LINKED_LIST,
    "make_folders": FOLDERS,
    "convert_pdf": of("path", path={**S, "pattern": r"^.+\.pdf$"}),
    "read_table": of("source", source={**S, "pattern": r"^s3://[^/]+/.+\.(csv|parquet)$"}),
    "select": of("query", query={**S, "pattern": "^SELECT .+ FROM [a-z_]+( WHERE .+)?;$"}),
}  # fmt: skip
