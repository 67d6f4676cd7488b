"""Scores that a submission cannot forge, for one file or a cohort."""
