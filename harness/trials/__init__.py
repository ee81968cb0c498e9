"""A trial from its configuration to its record, the store of records, and suites on a model."""
