"""A term: the marks of several labs side by side, from their ledgers."""
