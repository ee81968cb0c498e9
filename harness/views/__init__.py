"""Ways to make the views of an item: the texts or vectors that a contrastive loss compares."""
