"""A small text encoder and policies around it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from motionkit.motion import HUMANML, Normalizer
from motionkit.text import CachedEncoder
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMSettings

from ...made.plain import plain_dataset
from ...made.texts import HashEncoder


@pytest.fixture
def hash_encoder() -> HashEncoder:
    """An encoder that needs no model."""
    return HashEncoder()


@pytest.fixture
def source() -> SimpleNamespace:
    """Body and statistics of a dataset."""
    generator = torch.Generator().manual_seed(9)
    stats = Normalizer(torch.randn(263, generator=generator), torch.rand(263, generator=generator) + 0.5)
    return plain_dataset(skeleton=HUMANML, fps=20.0, normalizer=stats, max_length=60)


@pytest.fixture
def make_policy(hash_encoder: HashEncoder, source: SimpleNamespace) -> Callable[..., MDMPolicy]:
    """Build an untrained policy from shape settings."""

    def make(*, encoder: object = None, seed: int = 0, padding: str = "exact", **shape: object) -> MDMPolicy:
        settings = MDMSettings.model_validate({"layers": 2, "latent_dim": 16, "num_heads": 2, "ff_size": 32, **shape})
        chosen = CachedEncoder(hash_encoder) if encoder is None else encoder
        return new_policy(settings, dataset=source, encoder=chosen, seed=seed, padding=padding)

    return make
