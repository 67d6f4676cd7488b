"""A lab's pipeline in the server."""
