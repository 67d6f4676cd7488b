"""From submitted files to submissions."""
