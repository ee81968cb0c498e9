"""The trials of a sweep in the order in which workers get them."""
