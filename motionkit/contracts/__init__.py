"""Contracts: what a reward, a dataset, a policy and an environment are, and what they return."""
