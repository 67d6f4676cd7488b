"""Answers as bytes: JSON, errors, server-sent events."""
