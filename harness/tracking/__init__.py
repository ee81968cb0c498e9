"""What trials report, on its way to an experiment tracker (`--track`)."""
