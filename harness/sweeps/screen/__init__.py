"""The face of a sweep: the terminal, and the state that others watch."""
