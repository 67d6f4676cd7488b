"""Layers over decoded text. Nothing here knows tokens, requests or sockets."""
