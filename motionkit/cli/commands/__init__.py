"""One module per command that is not a trainer."""
