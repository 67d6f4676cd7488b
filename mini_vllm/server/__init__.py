"""The engine on the wire: the OpenAI API over HTTP and server-sent events.

It reads requests and writes down what the engine says; making tokens and parsing text happen below.
"""
