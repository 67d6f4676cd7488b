"""One tokenizer for each kind of file."""
