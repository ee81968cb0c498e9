"""The plugins that `harness new --like NAME` writes, with NAME for the name of the plugin."""
