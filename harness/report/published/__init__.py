"""What papers print, and which trials of a store stand beside it."""
