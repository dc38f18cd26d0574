"""The heavy half of Sa2VA."""

from motionkit.policies.sa2va._composite import MODEL_TYPE, Composite, write_composite
from motionkit.policies.sa2va._open import open_sa2va
from motionkit.policies.sa2va._policy import Sa2vaPolicy

__all__ = ["MODEL_TYPE", "Composite", "Sa2vaPolicy", "open_sa2va", "write_composite"]
