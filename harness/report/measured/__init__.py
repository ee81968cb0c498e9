"""Trials with the scores of all suites, and groups of comparable ones."""
