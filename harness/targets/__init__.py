"""The targets of sweeps: what a user asks for, in Python or on the command line, and running it."""
