"""Models, which return ids: for tests, for demonstrations, and with weights on another server."""
