"""Layers over decoded text, which know nothing of tokens, requests or sockets."""
