"""A hunt: a student's tests on every implementation of a pool."""
