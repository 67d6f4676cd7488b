"""The course in a browser: what runs in its Python, called by the page."""
