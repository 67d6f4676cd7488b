"""Token ids to text as they arrive."""
