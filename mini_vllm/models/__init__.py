"""What returns ids: models for tests and demonstrations, and real weights elsewhere."""
