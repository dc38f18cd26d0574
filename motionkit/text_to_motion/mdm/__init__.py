"""The Motion Diffusion Model (Tevet et al. 2022) as a policy, and its supervised training."""
