"""Fused operations on motions and their plain-torch definitions."""

from motionkit.kernels._physics import CONTACT_HEIGHT, physics_sums

__all__ = ["CONTACT_HEIGHT", "physics_sums"]
