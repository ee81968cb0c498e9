"""Losses. They are computed in float32, also where the encoder computes in bf16."""
