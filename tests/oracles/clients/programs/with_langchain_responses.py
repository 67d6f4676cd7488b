"""LangChain's `ChatOpenAI`: responses."""

import with_langchain
from with_langchain import chat, stream, structured, tools

with_langchain.RESPONSES = True

__all__ = ["chat", "stream", "structured", "tools"]
