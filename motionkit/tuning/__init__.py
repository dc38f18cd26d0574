"""Searches over a trainer's settings with Optuna, which is imported only when a search runs."""
