"""From scores to marks: who is who, late work, points given by hand."""
