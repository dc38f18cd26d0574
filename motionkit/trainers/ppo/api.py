"""The heavy half of PPO: imports torch and Stable-Baselines3."""
