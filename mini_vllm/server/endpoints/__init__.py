"""What a client may ask, one endpoint a file."""
