"""A table as typed cells, with ranks, marks and notes."""
