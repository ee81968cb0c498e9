"""The tables of a store: those of its suites, and a user's own."""
