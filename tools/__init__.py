"""Programs for those who work on harness; they are not shipped."""
