"""Training: the protocol of trainers, their loop, optimiser and processes."""
