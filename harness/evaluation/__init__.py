"""What an encoder is worth: the suites, and what they compute with."""
