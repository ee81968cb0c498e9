"""The families of encoders on which a method is compared with its formulas."""

import pytest

ENCODERS = ["tiny_encoder", pytest.param("tiny_roberta", marks=pytest.mark.slow)]
"""A small random BERT, and a small random RoBERTa outside of the inner loop"""
FAMILIES = pytest.mark.parametrize("family", ENCODERS)
"""Runs a test on both.

The test need not have the argument `family`: the fixture `kit_for` asks for it."""
