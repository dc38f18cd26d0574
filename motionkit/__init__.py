"""motionkit: teach human-motion models with rewards."""

from motionkit._version import __version__

__all__ = ["__version__"]
