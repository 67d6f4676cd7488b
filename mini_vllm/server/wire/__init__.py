"""Answers as bytes: chat chunks, server-sent events, errors."""
