"""The endpoints of the server, one in each file."""
