"""Text to motion: diffusion policies, their rewards, `motionkit grpo`, and how generated motions are measured."""
