"""Where models and data come from, and how sentences become batches."""
