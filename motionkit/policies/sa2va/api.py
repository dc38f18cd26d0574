"""The heavy half of Sa2VA."""
