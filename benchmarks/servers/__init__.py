"""A server of ours and a bare one, and a client that times both."""
