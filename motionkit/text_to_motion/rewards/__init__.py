"""Rewards of motions: by a joint space with texts, by physics, by movement, and sums of them."""
