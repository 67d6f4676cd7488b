"""How a run reads: tables, failures in full, traces, and what to do next."""
