"""The records, commands and set-up of a student's copy."""
