"""The course and its grader, packed for students and for grading platforms."""
