"""Haystack: a generator, and an agent with a tool, of responses."""

import with_haystack
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from with_haystack import chat, stream, tools

with_haystack.GENERATOR = OpenAIResponsesChatGenerator

__all__ = ["chat", "stream", "tools"]
