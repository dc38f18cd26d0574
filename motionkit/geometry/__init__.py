"""Rotations, headings and kinematic trees, all batched and differentiable."""
