"""Haystack: a generator, and an agent with a tool, of responses."""

import with_haystack
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from with_haystack import chat, stream, structured, tools

with_haystack.GENERATOR = OpenAIResponsesChatGenerator
with_haystack.FORMAT = "text_format"

__all__ = ["chat", "stream", "structured", "tools"]
