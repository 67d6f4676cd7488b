"""From a file, a folder or the hub to a tokenizer."""
