"""Environments: tasks that an actor acts in, seen by cameras; plugins of the group ``motionkit.environments``."""

from motionkit.environments._open import open_environment

__all__ = ["open_environment"]
