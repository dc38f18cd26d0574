"""The heavy half of the built-in region policy."""
