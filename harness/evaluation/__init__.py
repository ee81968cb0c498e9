"""Evaluation of an encoder: the suites, and what they compute with."""
