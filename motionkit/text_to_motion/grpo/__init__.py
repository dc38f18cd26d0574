"""`motionkit grpo`: reinforcement learning of a motion diffusion policy."""
