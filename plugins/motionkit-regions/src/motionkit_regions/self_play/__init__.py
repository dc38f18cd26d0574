"""`motionkit sa2va-rl`: self-play of captions and masks."""
