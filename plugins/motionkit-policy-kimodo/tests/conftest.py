"""What was recorded from Kimodo's own code: ../shared/fixtures/kimodo, and its README."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures" / "kimodo"


@pytest.fixture(scope="session")
def recorded() -> Path:
    if not FOLDER.is_dir():
        pytest.skip("../shared/fixtures/kimodo (recorded outputs) is not here")
    return FOLDER


@pytest.fixture(scope="session")
def tensors(recorded: Path) -> Callable[[str], dict[str, Tensor]]:
    """Read an .npz of the fixtures as tensors."""

    def read(name: str) -> dict[str, Tensor]:
        with np.load(recorded / name) as content:
            return {key: torch.as_tensor(content[key]) for key in content.files}

    return read


@pytest.fixture(scope="session")
def formula(recorded: Path) -> Callable[[dict[str, Any], int], dict[str, Tensor]]:
    """Make weights by the formula of the fixtures' README, and check their sums."""

    def make(names: dict[str, Any], seed: int) -> dict[str, Tensor]:
        made = {}
        for number, (name, (shape, total)) in enumerate(names.items()):
            x = np.random.RandomState([seed, number]).standard_normal(shape)
            if "norm" in name:
                x = 0.1 * x + name.endswith("weight")
            elif name.endswith("bias"):
                x *= 0.02
            elif name == "root_model.output_linear.weight":
                x *= 0.03 / np.sqrt(shape[-1])
            elif name != "tokens":
                x *= 1.2 / np.sqrt(shape[-1])
            assert abs(x.sum() - total) < 1e-6 * max(1.0, np.abs(x).sum())
            made[name] = torch.from_numpy(x.astype(np.float32))
        return made

    return make


@pytest.fixture(scope="session")
def meta(recorded: Path) -> Callable[[str], dict[str, Any]]:
    def read(name: str) -> dict[str, Any]:
        return json.loads((recorded / name / "meta.json").read_text())

    return read
