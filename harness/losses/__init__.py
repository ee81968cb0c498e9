"""Losses. They are computed in float32, whatever the precision of the encoder."""
