"""A conversation as the one string that a model continues."""
