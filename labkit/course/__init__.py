"""A lab as data: its facts, tests, hints, and what READMEs say of it."""
