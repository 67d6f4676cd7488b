"""The lower room."""
