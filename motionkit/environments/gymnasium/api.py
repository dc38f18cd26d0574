"""The heavy half: what environments that are gymnasium's underneath build on."""

from motionkit.environments.gymnasium._adapter import Adapter, Env

__all__ = ["Adapter", "Env"]
