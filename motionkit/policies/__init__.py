"""Policies: models that turn prompts into motions. Imports no torch."""
