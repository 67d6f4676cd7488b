"""Running a student's code in a process of its own, and believing nothing that it says."""
