"""An engine of two rooms."""
