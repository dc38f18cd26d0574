"""Supervised trainers that make the weights everything else starts from. Torch-free."""
