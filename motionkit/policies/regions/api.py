"""The heavy half of the built-in region policy."""

from motionkit.policies.regions._policy import SeenImages, ShapesPolicy
from motionkit.policies.regions._store import STARTER, open_regions

__all__ = ["STARTER", "SeenImages", "ShapesPolicy", "open_regions"]
