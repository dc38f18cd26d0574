"""Opens a TMR from any layout in which its weights are published."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import weights
from motionkit.encoders.tmr._layout import (
    DECODER,
    MOTION,
    TEXT,
    Parts,
    build_decoder,
    build_encoder,
    read_one,
    split_file,
)
from motionkit.encoders.tmr._model import TMR
from motionkit.encoders.tmr._native import CONFIG, WEIGHTS, is_native, read_config, read_native, text_record
from motionkit.encoders.tmr._stats import find_stats, read_stats
from motionkit.encoders.tmr._text import open_text_model
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.text import TextEncoder, TextRecord

_logger = logging.getLogger("motionkit.tmr")
_DEFAULT_HEADS = 4
_RUN_PART = "tmr"


def load_tmr(
    path: str | Path | None = None,
    *,
    text_encoder: Path | None = None,
    motion_encoder: Path | None = None,
    motion_decoder: Path | None = None,
    stats: Path | None = None,
    text_model: str | TextEncoder = "",
    table: Path | None = None,
    heads: int = 0,
    device: torch.device | str = "cpu",
) -> TMR:
    """Open a TMR strictly: every tensor must be known, and every network complete.

    Args:
        path: Folder written by motionkit, or the run that wrote it; a TMR run folder or its ``last_weights``; or one
            file in any layout.
        text_encoder: File of the text encoder, with `motion_encoder`, instead of `path`.
        motion_encoder: File of the motion encoder.
        motion_decoder: File of the decoder; optional.
        stats: Folder with TMR's mean and std; looked for beside the weights when None.
        text_model: See `motionkit.encoders.tmr._text.open_text_model`, or an encoder that is already open.
        table: Stored embeddings that the text model ``stored`` stands for.
        heads: Attention heads; 0 reads them from config.json, else 4.
        device: Where to put it.

    Returns:
        The model in eval mode.

    Raises:
        MotionkitError: What is wrong with which file, and what it really is.

    Example:
        >>> from motionkit import starter
        >>> tmr = load_tmr(starter.weights_path("tmr"), text_model="stored", table=starter.table_path())
        >>> tmr.encode_texts(["a man walks.", "someone walks."]).shape
        torch.Size([2, 128])
    """
    root = Path(path) if path is not None else None
    if root is not None and not root.exists():
        raise MotionkitError(
            f"{root} does not exist.",
            fix="give a TMR folder or file, or leave --reward.weights at 'starter'.",
        )
    if root is not None:
        root = next((folder for folder in (root / _RUN_PART, root.parent) if _holds(folder, root)), root)
    mean_std = None
    named = ""
    if root is not None and root.is_dir() and is_native(root):
        tensors, config = read_native(root)
        values = tensors.pop("stats")
        mean_std = values["mean"], values["std"]
        parts = Parts(tensors, dict.fromkeys(tensors, str(root)))
        found = config.get("heads")
        record = text_record(config, str(root / CONFIG))
    else:
        parts = _foreign(root, text_encoder, motion_encoder, motion_decoder)
        nearby = _nearby(root or motion_encoder or Path())
        config = next((found for folder in nearby if (found := read_config(folder / "config.json")).get("model")), {})
        found = _dig(config, "model", MOTION, "num_heads")
        record = TextRecord(encoder=_token_model(config, parts.tensors[TEXT]))
        named = str(_dig(config, "data", "motion_loader", "normalizer", "base_dir") or "")
        stats = stats or find_stats(nearby, named)
    heads = heads or _heads(found, root or motion_encoder)
    motion = build_encoder(parts.tensors[MOTION], heads, parts.origins[MOTION])
    text = build_encoder(parts.tensors[TEXT], heads, parts.origins[TEXT])
    origin = str(root or motion_encoder)
    _check_roles(motion.sizes.features, text.sizes.features, motion.sizes.latent, text.sizes.latent, parts)
    decoder = build_decoder(parts.tensors[DECODER], heads, parts.origins[DECODER]) if DECODER in parts.tensors else None
    if decoder is not None and decoder.sizes.features != motion.sizes.features:
        raise MotionkitError(
            f"the decoder of {parts.origins[DECODER]} writes {decoder.sizes.features} features, "
            f"the motion encoder reads {motion.sizes.features}."
        )
    if stats is not None or mean_std is None:
        # A motion encoder of ours may read several frames per token; its own statistics tell the width of one.
        width = motion.sizes.features if mean_std is None else len(mean_std[0])
        mean_std = read_stats(stats or _missing_stats(origin, named), width, named)
    if isinstance(text_model, str):
        kind, wide = record.encoder, text.sizes.features
        text_model = record.open(
            lambda name, local: open_text_model(
                name or kind, width=wide, kind=kind, table=table, local=local, device=device
            ),
            text_model,
            origin=str(root / CONFIG) if root is not None else origin,
            option="--reward.text-model",
        )
    model = TMR(
        motion,
        text,
        *mean_std,
        text_model=text_model,
        motion_decoder=decoder,
        origin=origin,
        trained_on=DataRecord.read(config),
    )
    return model.to(device).eval()


def _holds(folder: Path, asked: Path) -> bool:
    """Whether `folder` is the motionkit TMR that `asked` names: a run that contains it, or a file inside it."""
    return is_native(folder) and (folder.parent == asked or asked == folder / WEIGHTS)


def _foreign(root: Path | None, text: Path | None, motion: Path | None, decoder: Path | None) -> Parts:
    if root is not None and not root.is_dir():
        return split_file(weights.read(root), str(root))
    if root is not None:
        return _folder(root)
    if text is None or motion is None:
        raise MotionkitError(
            "a TMR needs its text encoder and its motion encoder.",
            fix="give --reward.weights, or --reward.text-encoder and --reward.motion-encoder.",
        )
    files = {TEXT: text, MOTION: motion} | ({DECODER: decoder} if decoder is not None else {})
    return Parts({name: read_one(file, name) for name, file in files.items()}, {n: str(f) for n, f in files.items()})


def _folder(root: Path) -> Parts:
    for folder in (root, root / "last_weights"):
        files = {name: file for name in (TEXT, MOTION, DECODER) if (file := _named(folder, name)) is not None}
        if TEXT in files and MOTION in files:
            return Parts({n: read_one(f, n) for n, f in files.items()}, {n: str(f) for n, f in files.items()})
        if files:
            absent = " and ".join(name for name in (TEXT, MOTION) if name not in files)
            raise MotionkitError(f"{folder} has no {absent} file.", why="scoring needs both encoders.")
    single = [root / "logs" / "checkpoints" / "last.ckpt"]
    single += [
        file for file in sorted(root.iterdir()) if file.suffix in {".ckpt", ".pt", ".pth", ".tar"} and file.is_file()
    ]
    # Files of an evaluator and of other models of ours: `split_file` names them.
    single += [root / name for name in ("text_mot_match/model/finest.tar", "evaluator/model.safetensors", WEIGHTS)]
    for file in single:
        if file.is_file() and file.name not in {"mean.pt", "std.pt"}:
            return split_file(weights.read(file), str(file))
    if (root / "run.json").is_file():
        raise MotionkitError(
            f"the run {root} has no TMR.",
            why="only a run of pretrain tmr that has come to an end has one.",
            fix=f"motionkit pretrain tmr --resume {shlex.quote(str(root))}",
        )
    raise MotionkitError(
        f"{root} holds no TMR.",
        why="neither text_encoder.pt and motion_encoder.pt, nor last_weights, nor one checkpoint file, nor a motionkit "
        "TMR is there.",
        fix="give the folder with TMR's last_weights, one checkpoint file, or a folder of motionkit pretrain tmr.",
    )


def _named(folder: Path, name: str) -> Path | None:
    return next(
        (
            file
            for end in (".pt", ".pth", ".ckpt", ".tar", ".safetensors")
            if (file := folder / f"{name}{end}").is_file()
        ),
        None,
    )


def _nearby(start: Path) -> list[Path]:
    """Return the folders in which config.json and stats may lie: that of the weights and two above it."""
    first = start if start.is_dir() else start.parent
    above = first.parents
    return [first, *list(above)[:2]]


def _dig(config: Mapping[str, Any], *keys: str) -> Any:
    """Return what stands at a path of keys; None where one is missing."""
    value: Any = config
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _heads(found: Any, origin: Path | None) -> int:
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    _logger.info(
        "%s: no config.json says how many attention heads it has; %d are assumed, as in the released TMR "
        "(--reward.heads N says otherwise)",
        origin,
        _DEFAULT_HEADS,
    )
    return _DEFAULT_HEADS


def _token_model(config: Mapping[str, Any], text: Mapping[str, Tensor]) -> str:
    """Return the name of our encoder that makes the tokens a foreign TMR reads; empty when there is none."""
    name = _dig(config, "data", "text_to_token_emb", "modelname")
    return "distilbert" if name == "distilbert-base-uncased" and text["projection.weight"].shape[-1] == 768 else ""


def _check_roles(motion: int, text: int, motion_latent: int, text_latent: int, parts: Parts) -> None:
    # The two networks have the same tensor names and differ in the input width only.
    known_text, known_motion = {384, 512, 768, 1024, 4096}, {263, 251, 135}
    if (motion in known_text and text not in known_text) or (text in known_motion and motion not in known_motion):
        raise MotionkitError(
            f"text and motion encoder are swapped: {parts.origins[MOTION]} reads {motion} features per step, "
            f"{parts.origins[TEXT]} reads {text}.",
            why=f"text models give {sorted(known_text)} features, motions have {sorted(known_motion)}.",
            fix="exchange --reward.text-encoder and --reward.motion-encoder.",
        )
    if motion_latent != text_latent:
        raise MotionkitError(
            f"{parts.origins[MOTION]} has latent width {motion_latent}, {parts.origins[TEXT]} has {text_latent}.",
            why="the two encoders come from different models.",
        )


def _missing_stats(origin: str, named: str) -> Path:
    raise MotionkitError(
        f"no mean and std found beside {origin}"
        + (f", neither in {named}, which its config.json names." if named else "."),
        why="TMR normalises motions with statistics of its own; with a generator's, scores are meaningless.",
        fix=f"point --reward.stats at TMR's {named or 'stats/humanml3d/guoh3dfeats'} (mean.pt and std.pt).",
    )
