"""labkit runs, checks and grades labs. It knows no lab by name: a lab's folder says it all."""
