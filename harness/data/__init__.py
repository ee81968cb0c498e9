"""Models and data: their sources, and the batches that sentences become."""
