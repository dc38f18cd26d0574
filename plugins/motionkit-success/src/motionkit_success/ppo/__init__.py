"""`motionkit ppo`: an actor learns from a reward, such as a trained success classifier."""
