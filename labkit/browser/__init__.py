"""The course in a browser: the code that the page calls in its Python."""
