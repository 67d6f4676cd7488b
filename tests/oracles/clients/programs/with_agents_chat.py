"""OpenAI's Agents SDK: chats."""

import agents
import with_agents
from with_agents import chat, stream, structured, tools

with_agents.MODEL = agents.OpenAIChatCompletionsModel

__all__ = ["chat", "stream", "structured", "tools"]
