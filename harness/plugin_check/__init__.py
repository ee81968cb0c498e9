"""`harness check`: whether a plugin keeps the contract of `harness.plugin`."""
