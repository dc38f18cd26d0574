"""`motionkit train-mpl`: stages, batches, losses, an update, the trainer, and the files of the guide."""
