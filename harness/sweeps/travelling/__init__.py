"""The files that travel from the driver to the machines of a cluster."""
