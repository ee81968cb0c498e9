"""Search spaces as searches, and searches as trials on Ray."""
