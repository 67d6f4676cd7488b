"""From scores to marks: matching of students, late work, points given by hand."""
