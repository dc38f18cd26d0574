"""Training: what every trainer builds on: its protocol, its loop, what it optimises, its processes."""
