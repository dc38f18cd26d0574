"""Actors: policies that act in environments; `api` is the heavy half. This imports no torch."""
