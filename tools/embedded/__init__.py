"""The generator of the embedded default: a small encoder and corpora with graded similarities."""
