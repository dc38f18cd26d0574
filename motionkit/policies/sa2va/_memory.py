"""What a run on a Sa2VA will take: memory of a device and compute of a step, before anything is loaded.

Numbers follow from config.json, the options and the size of a step. The encoders' own activations (one image at a time,
some GB at 1024 pixels) and what the allocator wastes are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._sizes import Dims, dims_of, parameters
from motionkit.policies.sa2va._variants import PARTS

_COPIES = 3
"""Copies of what is trained: the partner, the start, the best."""

_TEXT = 64
"""Tokens of a prompt beside image and region, about."""

_SPEED = 4e14
"""Operations per second: an H100 at 40 % in bfloat16."""


def plan(
    folder: Path, config: Mapping[str, Any], options: Sa2vaOptions, *, regions: int, group: int, half: bool
) -> list[str]:
    """Return the lines of the plan.

    Args:
        folder: Of the model; its weights need not be there.
        config: Its config.json.
        options: Of the policy.
        regions: Regions of a step.
        group: Samples of a region.
        half: Whether frozen weights are bfloat16.
    """
    dims, counts = dims_of(config), parameters(folder, config)
    adapters = dims.adapters(options.lora_rank)
    trained = adapters + counts["mlp1"] + counts["text_hidden_fcs"] + counts["mask_decoder"]
    whole = sum(counts[part] for part in PARTS)
    frozen = whole - (trained - adapters)
    size = 2 if half else 4
    kept = {
        f"{_many(frozen)} frozen weights": frozen * size,
        f"{_many(trained)} trained ones": 4 * trained,
        "their gradients": 4 * trained,
        "AdamW": 8 * trained,
        f"{_COPIES} copies of them": 4 * _COPIES * trained,
    }
    tokens = longest(dims, options)
    rows = min(options.rows, regions * group)
    cache = 2 * rows * tokens * dims.layers * dims.keys * size
    row = _row(dims, options, tokens, size)
    held = rows if options.gradient_checkpointing else regions * group
    most = sum(kept.values()) + max(cache, held * row)
    how = "with" if options.gradient_checkpointing else "without"
    return [
        f"{_many(whole)} parameters: " + ", ".join(f"{part} {_many(counts[part])}" for part in PARTS),
        "weights: " + ", ".join(f"{name} {_gb(value)}" for name, value in kept.items()),
        f"sampling: up to {tokens:,} tokens in a row, {rows} rows at once, cache {_gb(cache)}",
        f"training: {_gb(row)} of activations in a row, {held} rows in memory {how} --policy.gradient-checkpointing, "
        f"{_gb(held * row)}",
        f"in all about {_gb(most)}; --policy.rows, .max-tiles and .max-words make it smaller",
        _compute(dims, options, tokens, regions, group),
    ]


def longest(dims: Dims, options: Sa2vaOptions) -> int:
    """Return the tokens of the longest row: tiles, thumbnail, a region that fills it, question and caption."""
    tiles = options.max_tiles + (options.max_tiles > 1)
    return (tiles + 1) * dims.tile + _TEXT + options.max_words


def _row(dims: Dims, options: Sa2vaOptions, tokens: int, size: int) -> int:
    """Return the bytes that one row of a training pass holds for its backward pass.

    Of each layer: its input, both norms' inputs (in float32) and outputs, queries, keys and values before and after the
    rotation, the attention's output, four vectors inside the network, and those of the adapters.
    """
    numbers = 8 * dims.width + 3 * dims.queries + 4 * dims.keys + 4 * dims.inner + 7 * options.lora_rank
    logits = 3 * 4 * options.max_words * dims.vocabulary  # float32: logits, log-probabilities, their gradient
    return dims.layers * tokens * numbers * size + logits


def _compute(dims: Dims, options: Sa2vaOptions, tokens: int, regions: int, group: int) -> str:
    """Say what a step computes: passes of the language model over whole rows; words that are sampled come on top.

    Of each sample: two passes that score (now, at the start) and one that is trained in each loop, and the partner's in
    each loop. A trained pass counts as three, with checkpointing as four.
    """
    layer = 2 * dims.width * (dims.queries + dims.keys) + 3 * dims.width * dims.inner + 2 * tokens * dims.queries
    passes = 2 * (2 + 1 + (4 if options.gradient_checkpointing else 3)) * regions * group + regions
    total = 2.0 * dims.layers * layer * tokens * passes
    return f"compute: {total / 1e15:.3g} PFLOP a step and the sampled words, {total / _SPEED:.3g} s at 400 TFLOP/s"


def _many(count: int) -> str:
    if count < 1e6:
        return f"{count:,}"
    return f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
