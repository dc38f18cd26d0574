"""motionkit's own .npz: a motion with all that is known about it, without pickle."""
