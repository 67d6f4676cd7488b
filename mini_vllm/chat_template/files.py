"""Finds the chat template of a model folder, and chooses among several.

A template is read unchanged, without trimming or rewriting; `ChatTemplate` checks whether it works.
"""

import json
import os
from pathlib import Path
from typing import Any

from mini_vllm.chat_template.template import DEFAULT_LIMITS
from mini_vllm.text.whole_json import load_json
from mini_vllm.tokenizer_errors import (
    ChatTemplateError,
    CorruptModelFile,
    TokenizerFileNotFound,
)

# A tokenizer_config.json also lists every added token.
_CONFIG_BYTES = 64 << 20


def load_chat_template_from_file(path: str | Path) -> str:
    """Return the text of a template file, verbatim.

    Raises:
        TokenizerFileNotFound: the file does not exist.
        CorruptModelFile: the file is not UTF-8.
        ChatTemplateError: the file is longer than a template may be.
    """
    path = Path(path)
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    return _checked_size(path, _read(path, 4 * DEFAULT_LIMITS.template_size))


def load_chat_template_from_config(path: str | Path) -> str | None:
    """Return the `chat_template` of a JSON file, or None if the file or the template is missing.

    If it is a list of named templates, return the template named `default`.

    Raises:
        CorruptModelFile: the file is not JSON, or its template is neither a string nor such a list.
        ChatTemplateError: the file or its template is too long.
    """
    path = Path(path)
    if not path.is_file():
        return None
    config = _parse(path, _read(path, _CONFIG_BYTES))
    if not isinstance(config, dict):
        raise CorruptModelFile(path, None, "not a JSON object")
    template = config.get("chat_template")
    if isinstance(template, list):
        template = _default_of(path, template)
    if template is None:
        return None
    if not isinstance(template, str):
        raise CorruptModelFile(path, None, f"chat_template is a {type(template).__name__}")
    return _checked_size(path, template)


def find_chat_template(folder: str | Path, explicit: str | Path | None = None) -> str | None:
    """Return the template of a model folder, or None if there is none.

    The first of these wins: the explicit file (a `.json` file is a config), `chat_template.json`,
    `chat_template.jinja`, the only other `*.jinja` file, `tokenizer_config.json`.

    Raises:
        TokenizerFileNotFound: the explicit file, or the folder, does not exist.
        CorruptModelFile: the file that counts is damaged.
        ChatTemplateError: the file that counts is too long, the explicit config has no template, or
            there are several `*.jinja` files without a `chat_template.jinja` among them.
    """
    if explicit is not None:
        return _load_explicit(Path(explicit))
    folder = Path(folder)
    if not folder.is_dir():
        raise TokenizerFileNotFound(folder)
    template = load_chat_template_from_config(folder / "chat_template.json")
    if template is not None:
        return template
    jinja = _jinja_file(folder)
    if jinja is not None:
        return load_chat_template_from_file(jinja)
    return load_chat_template_from_config(folder / "tokenizer_config.json")


def _load_explicit(path: Path) -> str:
    if path.suffix != ".json":
        return load_chat_template_from_file(path)
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    template = load_chat_template_from_config(path)
    if template is None:
        raise ChatTemplateError(f"{path} has no chat_template")
    return template


def _jinja_file(folder: Path) -> Path | None:
    named = folder / "chat_template.jinja"
    if named.is_file():
        return named
    files = sorted(path for path in folder.glob("*.jinja") if path.is_file())
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise ChatTemplateError(f"{folder} has several templates: {names}; name the one to use")
    return files[0] if files else None


def _default_of(path: Path, entries: list[Any]) -> Any:
    for entry in entries:
        if not isinstance(entry, dict):
            raise CorruptModelFile(path, None, "chat_template lists something without a name")
        if entry.get("name") == "default":
            return entry.get("template")
    return None


def _read(path: Path, most: int) -> str:
    with path.open("rb") as file:
        # A read allocates all bytes that it asks for, so ask for only one byte more than there are.
        data = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > most:
        raise ChatTemplateError(f"{path} is longer than its limit of {most} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptModelFile(path, error.start, "not UTF-8") from None


def _parse(path: Path, text: str) -> Any:
    try:
        return load_json(text)
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        raise CorruptModelFile(path, offset, f"not JSON: {error.msg}") from None
    except ValueError as error:
        raise CorruptModelFile(path, None, f"not JSON: {error}") from None


def _checked_size(path: Path, template: str) -> str:
    most = DEFAULT_LIMITS.template_size
    if len(template) > most:
        raise ChatTemplateError(
            f"the template of {path} has {len(template)} characters, over its limit of {most}"
        )
    return template
