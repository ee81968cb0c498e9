"""Trained parts of methods that stand beside or behind an encoder."""
