"""From files that were handed in to submissions."""
