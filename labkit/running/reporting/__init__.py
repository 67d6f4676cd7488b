"""Reports of a run: tables, failures in full, traces, and the next step."""
