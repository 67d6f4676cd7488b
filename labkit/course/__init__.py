"""A lab as data: its facts, tests, hints, and the generated parts of READMEs."""
