"""The engine on the wire: the OpenAI API over HTTP and server-sent events.

It reads requests and writes the engine's answers; the layers below make tokens and parse text.
"""
