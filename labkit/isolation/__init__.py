"""Running a student's code in a process of its own, without trusting its answers."""
