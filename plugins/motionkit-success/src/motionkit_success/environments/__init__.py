"""Environments: tasks that an actor acts in, seen by cameras; plugins of the group ``motionkit.environments``."""
