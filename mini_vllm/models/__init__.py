"""What returns ids: models for tests, demonstrations, and real weights elsewhere."""
