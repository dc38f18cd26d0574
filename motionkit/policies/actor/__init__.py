"""Actors: policies that act in environments. The heavy half is `motionkit.policies.actor.api`; this imports no torch."""

from motionkit.policies.actor._settings import ActorSettings, ActorSpec, spec_of

__all__ = ["ActorSettings", "ActorSpec", "spec_of"]
