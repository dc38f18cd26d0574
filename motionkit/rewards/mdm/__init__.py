"""Rewards of the text-to-motion evaluator. Light half, no torch."""
