"""The methods that come with harness, one package each."""
