"""Running a lab's tests on an implementation, and reporting the results."""
