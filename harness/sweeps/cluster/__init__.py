"""Ray: the session, its machines, and the trials on them."""
