"""Environments: tasks that an actor acts in, seen by cameras; each is a plugin of the group ``motionkit.environments``."""
