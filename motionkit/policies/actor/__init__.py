"""Actors: policies that act in environments; `api` is the heavy half. This imports no torch."""

from motionkit.policies.actor._settings import ActorSettings, ActorSpec, spec_of

__all__ = ["ActorSettings", "ActorSpec", "spec_of"]
