"""Pretrained encoders, the places where methods reach into them, and poolings."""
