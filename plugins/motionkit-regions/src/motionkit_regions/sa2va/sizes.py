"""Sizes of a Sa2VA: parameters, memory and compute, and which variants can be used. Imports no torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit_regions.sa2va import Sa2vaOptions

PARTS = ("vision_model", "mlp1", "language_model", "text_hidden_fcs", "grounding_encoder")
"""Parts of a network that captions regions and draws masks."""

CONFIG_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors that reading sizes from an untrusted config.json can raise."""

_HEADER = 64 << 20  # most bytes of the header of a safetensors file
_META = "__metadata__"
_LANGUAGE = ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "InternLM2ForCausalLM")

_SAM, _DECODER = 224_430_000, 4_210_000
"""Parameters of SAM 2 (Hiera-L), which the published code always builds, and of its mask decoder."""

_PROMPT = 256

_COPIES = 3  # copies of what is trained: the partner, the start, the best
_GATHERED = 3  # layers that are gathered at once: the one that computes, the next one, and the buffer of an exchange
_TEXT = 64  # tokens of a prompt without image and region, about
_SPEED = 4e14  # operations per second: an H100 at 40 % in bfloat16


def check_variant(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse a model that self-play cannot use."""
    names = weight_names(folder)
    lacking = [part for part in PARTS if not any(name.startswith(f"{part}.") for name in names)]
    if not isinstance(auto := config.get("auto_map"), dict) or "AutoModel" not in auto or "text_hidden_fcs" in lacking:
        raise MotionkitError(
            f"{folder} holds a model of type {str(config.get('model_type'))[:40]!r}, which is not a Sa2VA.",
            fix="give a folder of Sa2VA, such as ByteDance/Sa2VA-4B on the hub.",
        )
    if lacking:
        raise MotionkitError(
            f"{folder} is a variant of Sa2VA that ignores regions.",
            why=f"it has no {lacking[0]}: the variants on Qwen2.5-VL and Qwen3-VL take mask prompts and never read "
            "them, so that no caption could be of a region.",
            fix="take a variant on InternVL: Sa2VA-1B, -4B, -8B, -26B or Sa2VA-InternVL3-2B, -8B, -14B.",
        )
    language = config.get("llm_config")
    kinds = language.get("architectures") if isinstance(language, dict) else None
    kind = str(kinds[0])[:40] if isinstance(kinds, list) and kinds else "none"
    if kind not in _LANGUAGE:
        raise MotionkitError(
            f"the language model of {folder} is {kind!r}, which is not supported.",
            why="its code keeps what it has read in a way that current transformers dropped.",
            fix="take a variant on Qwen2 or InternLM2: Sa2VA-1B, -4B, -8B, -26B or Sa2VA-InternVL3-2B, -8B, -14B.",
        )


def weight_names(folder: Path) -> set[str]:
    """Return the names of the weights of a folder; empty if it has none that can be read."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = read_json(index, dict, fix="copy the folder again.").get("weight_map")
        return set(map(str, listed)) if isinstance(listed, dict) else set()
    return set(weight_shapes(folder))


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a folder, from its files' headers; empty if one is damaged."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length)) if length <= _HEADER else {}
            shapes |= {str(name): tuple(map(int, entry["shape"])) for name, entry in header.items() if name != _META}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
            return {}
    return shapes


@dataclass(frozen=True)
class Dims:
    """Sizes of a language model and of its image tokens."""

    width: int  # numbers of a state
    layers: int
    inner: int  # numbers inside a layer's network
    queries: int  # numbers of all queries of a layer
    keys: int  # numbers of all keys of a layer
    vocabulary: int  # rows of the output
    tied: bool  # whether input and output share them
    tile: int  # tokens of a tile
    seen: int  # numbers of a cell, as the projector reads it

    def layer(self) -> int:
        """Return the parameters of a layer; small vectors are left out."""
        return 2 * self.width * (self.queries + self.keys) + 3 * self.width * self.inner

    def adapters(self, rank: int) -> int:
        """Return the parameters of adapters on every linear layer."""
        attention = 2 * (self.width + self.queries) + 2 * (self.width + self.keys)
        return rank * self.layers * (attention + 3 * (self.width + self.inner))


def no_model(where: str, error: Exception) -> MotionkitError:
    """Return the error for a config.json from which no model can be built."""
    why = f"it has no {error.args[0]}." if isinstance(error, KeyError) else f"{str(error).partition(chr(10))[0][:200]}."
    return MotionkitError(
        f"{where} describes no Sa2VA model.", why=why, fix="copy the folder again, or name the folder of a Sa2VA model."
    )


def dims_of(config: Mapping[str, Any]) -> Dims:
    """Read the sizes from config.json."""
    try:
        words, vision = config["llm_config"], config["vision_config"]
        heads = int(words["num_attention_heads"])
        head = int(words.get("head_dim") or words["hidden_size"] // heads)
        side = _integer(config.get("force_image_size") or vision["image_size"]) // _integer(vision["patch_size"])
        factor = round(1 / float(config["downsample_ratio"]))
        return Dims(
            int(words["hidden_size"]), int(words["num_hidden_layers"]), int(words["intermediate_size"]), heads * head,
            int(words.get("num_key_value_heads") or heads) * head, int(words["vocab_size"]),
            bool(words.get("tie_word_embeddings", False)), (side // factor) ** 2,
            factor**2 * int(vision["hidden_size"]),
        )  # fmt: skip
    except CONFIG_ERRORS as error:
        raise no_model("config.json", error) from error


def parameters(folder: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """Return the parameters of each part, and of ``mask_decoder``, which is inside the last of them.

    They follow from the headers of the weight files if these are there, else from config.json.
    """
    shapes = weight_shapes(folder)
    if not shapes:
        return by_config(config)
    counts = {part: sum(prod(shape) for name, shape in shapes.items() if name.startswith(f"{part}.")) for part in PARTS}
    return {**counts, "mask_decoder": sum(prod(shape) for name, shape in shapes.items() if "mask_decoder." in name)}


def by_config(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the parameters of each part of a published model by its config.json; small vectors are left out."""
    dims, vision = dims_of(config), config["vision_config"]
    width, inner = int(vision["hidden_size"]), int(vision["intermediate_size"])
    patch = _integer(vision["patch_size"])
    cells = (_integer(vision["image_size"]) // patch) ** 2 + 1
    layer = 4 * width**2 + 2 * width * inner
    return {
        "vision_model": int(vision["num_hidden_layers"]) * layer + (3 * patch**2 + cells) * width,
        "mlp1": (dims.seen + dims.width) * dims.width,
        "language_model": dims.layers * dims.layer() + (1 if dims.tied else 2) * dims.vocabulary * dims.width,
        "text_hidden_fcs": (dims.width + _PROMPT) * dims.width,
        "grounding_encoder": _SAM,
        "mask_decoder": _DECODER,
    }


def _integer(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


@dataclass(frozen=True)
class Kept:
    """Bytes that a process holds all the time, or for a gathered layer."""

    frozen: float  # weights that are not trained
    trained: float  # weights that are, in float32; their gradients take as much again
    gathered: float  # largest layers that are whole at once; 0 without sharding
    opened: float  # main memory for the model as it is opened, whole


def kept_of(dims: Dims, counts: Mapping[str, int], options: Sa2vaOptions, *, half: bool, shards: int) -> Kept:
    """Return what each of `shards` processes holds; the grounding encoder and shared embeddings are whole in each."""
    size = 2 if half else 4
    frozen, trained = _counted(dims, counts, options)
    words = dims.vocabulary * dims.width
    whole = counts["grounding_encoder"] - counts["mask_decoder"] + (words if dims.tied else 0)
    adapters = dims.adapters(options.lora_rank) / dims.layers
    largest = max(dims.layer() * size + 4 * adapters, 0 if dims.tied else words * size)
    return Kept(
        size * (whole + (frozen - whole) / shards),
        4 * (counts["mask_decoder"] + (trained - counts["mask_decoder"]) / shards),
        _GATHERED * largest if shards > 1 else 0.0,
        size * frozen + 4.0 * trained,
    )


def _counted(dims: Dims, counts: Mapping[str, int], options: Sa2vaOptions) -> tuple[int, int]:
    """Return the parameters that are frozen and those that are trained, adapters among them."""
    whole = counts["mlp1"] + counts["text_hidden_fcs"] + counts["mask_decoder"]
    return sum(counts[part] for part in PARTS) - whole, whole + dims.adapters(options.lora_rank)


def plan(
    folder: Path,
    config: Mapping[str, Any],
    options: Sa2vaOptions,
    *,
    regions: int,
    group: int,
    half: bool,
    shards: int = 1,
) -> list[str]:
    """Estimate the memory of a device and the compute of a step before anything is loaded; returns the lines.

    The estimate follows from config.json, the options and the size of a step. Not counted are the encoders' activations
    (one image at a time, some GB at 1024 pixels), copies of the adapters in bfloat16 that a backward pass reads, and
    the overhead of the allocator.

    Args:
        folder: Folder of the model; its weights need not be there.
        config: Its config.json.
        options: Options of the policy.
        regions: Regions of a step in this process.
        group: Samples of a region.
        half: Whether frozen weights are bfloat16.
        shards: Processes that layers are sharded over; 1: the model is whole.
    """
    dims, counts = dims_of(config), parameters(folder, config)
    frozen, trained = _counted(dims, counts, options)
    size = 2 if half else 4
    held = kept_of(dims, counts, options, half=half, shards=shards)
    kept = {
        f"{_many(frozen)} frozen weights": held.frozen,
        f"{_many(trained)} trained ones": held.trained,
        "their gradients": held.trained,
        "AdamW": 2 * held.trained,
        f"{_COPIES} copies of them": _COPIES * held.trained,
        **({"gathered layers": held.gathered} if held.gathered else {}),
    }
    tokens = longest(dims, options)
    rows = min(options.rows, regions * group)
    cache = 2 * rows * tokens * dims.layers * dims.keys * size
    training, said = _training(dims, options, tokens, size, rows=rows, regions=regions, group=group, sharded=shards > 1)
    most = sum(kept.values()) + max(cache, training)
    of_each = f" in each of {shards} processes" if shards > 1 else ""
    return [
        f"{_many(sum(counts[part] for part in PARTS))} parameters: "
        + ", ".join(f"{part} {_many(counts[part])}" for part in PARTS),
        f"weights{of_each}: " + ", ".join(f"{name} {_gb(value)}" for name, value in kept.items()),
        f"sampling: up to {tokens:,} tokens in a row, {rows} rows at once, cache {_gb(cache)}",
        f"training: {said}, {_gb(training)}",
        f"in all about {_gb(most)}{of_each}; --policy.rows, .max-tiles and .max-words make it smaller",
        *([f"main memory: {_gb(held.opened)} in each process until its share is on its device"] if shards > 1 else []),
        _compute(dims, options, tokens, regions, group),
    ]


def _training(
    dims: Dims, options: Sa2vaOptions, tokens: int, size: int, *, rows: int, regions: int, group: int, sharded: bool
) -> tuple[float, str]:
    """Return the bytes of activations that a training pass keeps, and where they come from.

    Gradient checkpointing keeps those of some rows, and of all rows next to nothing. Of a sharded model it goes layer
    by layer: until the backward pass it keeps every layer's input, of each row's four passes (two that score or draw in
    each loop) and of the anchor's two for each region, and the logits of the passes that score.
    """
    row, flag, every = _row(dims, options, tokens, size), "--policy.gradient-checkpointing", regions * group
    if sharded and options.gradient_checkpointing:
        inputs, logits = dims.layers * tokens * dims.width * size, _logits(dims, options)
        passes = 4 * every + 2 * regions
        said = f"{_gb(inputs)} of layers' inputs in a row, {passes} rows in memory with {flag}, and logits"
        return passes * inputs + (every + regions) * logits + rows * (row - logits) / dims.layers, said
    in_memory = rows if options.gradient_checkpointing else every
    how = "with" if options.gradient_checkpointing else "without"
    return in_memory * row, f"{_gb(row)} of activations in a row, {in_memory} rows in memory {how} {flag}"


def longest(dims: Dims, options: Sa2vaOptions) -> int:
    """Return the tokens of the longest row: tiles, thumbnail, a region that fills it, question and caption."""
    tiles = options.max_tiles + (options.max_tiles > 1)
    return (tiles + 1) * dims.tile + _TEXT + options.max_words


def _row(dims: Dims, options: Sa2vaOptions, tokens: int, size: int) -> int:
    """Return the bytes of activations that one row of a training pass keeps for its backward pass.

    Of each layer: its input, both norms' inputs (in float32) and outputs, queries, keys and values before and after the
    rotation, the attention's output, four vectors inside the network, and those of the adapters.
    """
    numbers = 8 * dims.width + 3 * dims.queries + 4 * dims.keys + 4 * dims.inner + 7 * options.lora_rank
    return dims.layers * tokens * numbers * size + _logits(dims, options)


def _logits(dims: Dims, options: Sa2vaOptions) -> int:
    """Return the bytes of a row's logits, log-probabilities and their gradient, in float32."""
    return 3 * 4 * options.max_words * dims.vocabulary


def _compute(dims: Dims, options: Sa2vaOptions, tokens: int, regions: int, group: int) -> str:
    """Estimate the compute of a step: passes of the language model over whole rows, without the sampling of words.

    Of each sample and loop: two passes that score (now, at the start), one that is trained, and the partner's. A
    trained pass counts as three, with checkpointing as four.
    """
    layer = dims.layer() + 2 * tokens * dims.queries
    passes = 2 * (2 + 1 + (4 if options.gradient_checkpointing else 3)) * regions * group + regions
    total = 2.0 * dims.layers * layer * tokens * passes
    return f"compute: {total / 1e15:.3g} PFLOP a step and the sampled words, {total / _SPEED:.3g} s at 400 TFLOP/s"


def _many(count: int) -> str:
    if count < 1e6:
        return f"{count:,}"
    return f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
