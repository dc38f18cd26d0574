"""Fused CUDA kernels on motions and their plain-torch definitions."""

from motionkit.kernels._backend import BACKENDS, backend_report
from motionkit.kernels._functions import CONTACT_HEIGHT, PhysicsTerms, features_to_joints, physics_sums, physics_terms

__all__ = [
    "BACKENDS",
    "CONTACT_HEIGHT",
    "PhysicsTerms",
    "backend_report",
    "features_to_joints",
    "physics_sums",
    "physics_terms",
]
