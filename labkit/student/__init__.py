"""What a student's copy remembers, shows, and needs to be set up."""
