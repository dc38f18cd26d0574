"""How many numbers each part of a Sa2VA has: by its files, or by config.json alone. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.policies.sa2va._variants import PARTS, weight_shapes

_SAM, _DECODER = 224_430_000, 4_210_000
"""Parameters of SAM 2 (Hiera-L), which the published code always builds, and of its mask decoder."""

_PROMPT = 256


@dataclass(frozen=True)
class Dims:
    """Sizes of a language model and of what it reads.

    Attributes:
        width: Numbers of a state.
        layers: Layers.
        inner: Numbers inside a layer's network.
        queries: Numbers of all queries of a layer.
        keys: Numbers of all keys of a layer.
        vocabulary: Rows of the output.
        tied: Whether input and output share them.
        tile: Tokens of a tile.
        seen: Numbers of a cell, as the projector reads it.
    """

    width: int
    layers: int
    inner: int
    queries: int
    keys: int
    vocabulary: int
    tied: bool
    tile: int
    seen: int

    def adapters(self, rank: int) -> int:
        """Return the parameters of adapters on every linear layer."""
        attention = 2 * (self.width + self.queries) + 2 * (self.width + self.keys)
        return rank * self.layers * (attention + 3 * (self.width + self.inner))


CONFIG_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading sizes off a config.json of a stranger can raise."""


def no_model(where: str, error: Exception) -> MotionkitError:
    """Return the error for a config.json from which no model can be built.

    Args:
        where: The file.
        error: One of `CONFIG_ERRORS`.
    """
    why = f"it has no {error.args[0]}." if isinstance(error, KeyError) else f"{str(error).partition(chr(10))[0][:200]}."
    return MotionkitError(
        f"{where} describes no Sa2VA model.", why=why, fix="copy the folder again, or name the folder of a Sa2VA model."
    )


def dims_of(config: Mapping[str, Any]) -> Dims:
    """Read the sizes off config.json.

    Raises:
        MotionkitError: One is missing.
    """
    try:
        words, vision = config["llm_config"], config["vision_config"]
        heads = int(words["num_attention_heads"])
        each = int(words.get("head_dim") or words["hidden_size"] // heads)
        side = _one(config.get("force_image_size") or vision["image_size"]) // _one(vision["patch_size"])
        factor = round(1 / float(config["downsample_ratio"]))
        return Dims(
            int(words["hidden_size"]), int(words["num_hidden_layers"]), int(words["intermediate_size"]), heads * each,
            int(words.get("num_key_value_heads") or heads) * each, int(words["vocab_size"]),
            bool(words.get("tie_word_embeddings", False)), (side // factor) ** 2,
            factor**2 * int(vision["hidden_size"]),
        )  # fmt: skip
    except CONFIG_ERRORS as error:
        raise no_model("config.json", error) from error


def parameters(folder: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """Return the parameters of each part, and of ``mask_decoder``, which is inside the last of them.

    The lists of tensors in the weight files are read where they are in place, else sizes follow from config.json.
    """
    shapes = weight_shapes(folder)
    if not shapes:
        return by_config(config)
    found = {part: sum(prod(shape) for name, shape in shapes.items() if name.startswith(f"{part}.")) for part in PARTS}
    return {**found, "mask_decoder": sum(prod(shape) for name, shape in shapes.items() if "mask_decoder." in name)}


def by_config(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the same of a published model by its config.json; small vectors are left out."""
    dims, vision = dims_of(config), config["vision_config"]
    width, inner = int(vision["hidden_size"]), int(vision["intermediate_size"])
    patch = _one(vision["patch_size"])
    cells = (_one(vision["image_size"]) // patch) ** 2 + 1
    layer = 4 * width**2 + 2 * width * inner
    attention = 2 * dims.width * dims.queries + 2 * dims.width * dims.keys
    words = dims.layers * (attention + 3 * dims.width * dims.inner)
    return {
        "vision_model": int(vision["num_hidden_layers"]) * layer + (3 * patch**2 + cells) * width,
        "mlp1": (dims.seen + dims.width) * dims.width,
        "language_model": words + (1 if dims.tied else 2) * dims.vocabulary * dims.width,
        "text_hidden_fcs": (dims.width + _PROMPT) * dims.width,
        "grounding_encoder": _SAM,
        "mask_decoder": _DECODER,
    }


def _one(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)
