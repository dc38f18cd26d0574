"""The heavy half of actors: imports torch and Stable-Baselines3."""
