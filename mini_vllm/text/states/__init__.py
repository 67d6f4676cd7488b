"""The kinds of places that the table of a format consists of: each is a `State` of the machine."""
