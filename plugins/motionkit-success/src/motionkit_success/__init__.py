"""Learned success rewards: episodes that cameras saw, a classifier of success, and PPO on it."""
