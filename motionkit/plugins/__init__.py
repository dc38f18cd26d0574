"""Plugin components and their discovery. Imports no torch."""

from motionkit.plugins._component import Component

__all__ = ["Component"]
