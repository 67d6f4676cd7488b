"""A lab's pipeline behind the server."""
