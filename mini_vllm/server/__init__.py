"""The engine on the wire: the OpenAI API over HTTP and server-sent events.

But: nothing here makes tokens or parses text. It reads requests, and writes down what the engine
says.
"""
