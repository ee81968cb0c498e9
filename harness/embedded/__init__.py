"""The embedded default: a tiny encoder and a small graded corpus that the project makes itself."""
