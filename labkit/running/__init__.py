"""Running a lab's tests on an implementation, and reporting what came of it."""
