"""Reports of trials on their way to an experiment tracker (`--track`)."""
