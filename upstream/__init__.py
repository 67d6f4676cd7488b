"""Parts of this course inside real engines, and the reading map to those."""
