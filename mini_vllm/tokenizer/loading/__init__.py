"""Loads tokenizers from files, folders and the hub."""
