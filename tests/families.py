"""The families of encoders on which a method is compared with its formulas."""

import pytest

FAMILIES = pytest.mark.parametrize("family", ["tiny_encoder", "tiny_roberta"])
"""Runs a test on a small random BERT and on a small random RoBERTa.

The test need not have the argument `family`: the fixture `kit_for` asks for it."""
