"""Pydantic AI's agent: responses."""

import with_pydantic_ai
from pydantic_ai.models.openai import OpenAIResponsesModel
from with_pydantic_ai import chat, stream, structured, tools

with_pydantic_ai.MODEL = OpenAIResponsesModel

__all__ = ["chat", "stream", "structured", "tools"]
