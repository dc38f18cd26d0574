"""The motion encoder: its network, its training, and what it knows."""
