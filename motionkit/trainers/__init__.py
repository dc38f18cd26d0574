"""Trainers: one folder per plugin, one command each. Torch-free; the protocol is in `base`."""
