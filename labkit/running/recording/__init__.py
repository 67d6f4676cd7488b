"""Records each line that the code under test runs, so that a reader can step through a failure."""
