"""Code in another process: the values that cross to it, and objects there that are used here."""
