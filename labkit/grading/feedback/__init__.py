"""The feedback for each student: a page and a text, without anything about other students."""
