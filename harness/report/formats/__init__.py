"""Sheets for the terminal, as text, as pages and as data."""
