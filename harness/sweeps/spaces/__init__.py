"""Search spaces and command lines as searches."""
