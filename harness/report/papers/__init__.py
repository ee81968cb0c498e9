"""The tables of a paper with our numbers, and the verdict on them."""
