"""A small folder of Sa2VA's parts with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.made.small_sa2va import write_model


@pytest.fixture(scope="session")
def composite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of such a model."""
    pytest.importorskip("transformers")
    return write_model(tmp_path_factory.mktemp("sa2va") / "model")
