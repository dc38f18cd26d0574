"""Contracts: what a reward, dataset, policy, environment and evaluation protocol are, and what they return."""
