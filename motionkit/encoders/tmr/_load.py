"""Opening a TMR from whatever the user has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

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
from motionkit.encoders.tmr._native import WEIGHTS, is_native, read_config, read_native
from motionkit.encoders.tmr._stats import find_stats, read_stats
from motionkit.encoders.tmr._text import open_text_model
from motionkit.errors import MotionkitError
from motionkit.text import TextEncoder

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
        text_model: See `motionkit.encoders.tmr.open_text_model`, or an encoder that is already open.
        table: Stored embeddings that the text model ``stored`` stands for.
        heads: Attention heads; 0 reads them from config.json, else 4.
        device: Where to put it.

    Returns:
        The model in eval mode.

    Raises:
        MotionkitError: What is wrong with which file, and what it really is.
    """
    root = Path(path) if path is not None else None
    if root is not None and not root.exists():
        raise MotionkitError(
            f"{root} does not exist.",
            fix="give a TMR folder or file, or leave --reward.weights at 'starter'.",
        )
    if root is not None:
        root = next((folder for folder in (root / _RUN_PART, root.parent) if _holds(folder, root)), root)
    config: Mapping[str, Any] = {}
    mean_std = None
    if root is not None and root.is_dir() and is_native(root):
        tensors, config = read_native(root)
        values = tensors.pop("stats")
        mean_std = values["mean"], values["std"]
        parts = Parts(tensors, dict.fromkeys(tensors, str(root)))
        heads = heads or int(config.get("heads", _DEFAULT_HEADS))
        wanted = (config.get("text") or {}).get("encoder", "")
    else:
        parts = _foreign(root, text_encoder, motion_encoder, motion_decoder)
        nearby = _nearby(root or motion_encoder or Path())
        config = next((found for folder in nearby if (found := read_config(folder / "config.json")).get("model")), {})
        heads = heads or _heads_of(config)
        wanted = "distilbert" if _token_model(config) == "distilbert-base-uncased" else ""
        stats = stats or find_stats(nearby)
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
        mean_std = read_stats(stats or _missing_stats(origin), width)
    if isinstance(text_model, str):
        fits = wanted if _fits(wanted, text.sizes.features) else ""
        text_model = open_text_model(text_model or fits, width=text.sizes.features, table=table, device=device)
    model = TMR(motion, text, *mean_std, text_model=text_model, motion_decoder=decoder, origin=origin)
    return model.to(device).eval()


def _holds(folder: Path, asked: Path) -> bool:
    """Tell whether `folder` is the motionkit TMR meant by `asked`: inside that run, or around that file."""
    return is_native(folder) and (folder.parent == asked or asked == folder / WEIGHTS)


def _foreign(root: Path | None, text: Path | None, motion: Path | None, decoder: Path | None) -> Parts:
    if root is not None and root.is_file():
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
    for file in single:
        if file.is_file() and file.name not in {"mean.pt", "std.pt"}:
            return split_file(weights.read(file), str(file))
    if (root / "run.json").is_file():
        raise MotionkitError(
            f"the run {root} has no TMR.",
            why="only a run of pretrain tmr that has come to an end has one.",
            fix=f"motionkit pretrain tmr --resume {root}",
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


def _heads_of(config: Mapping[str, Any]) -> int:
    model = config.get("model")
    encoder = model.get(MOTION) if isinstance(model, Mapping) else None
    heads = encoder.get("num_heads") if isinstance(encoder, Mapping) else None
    return heads if isinstance(heads, int) else _DEFAULT_HEADS


def _token_model(config: Mapping[str, Any]) -> str:
    data = config.get("data")
    tokens = data.get("text_to_token_emb") if isinstance(data, Mapping) else None
    return str(tokens.get("modelname", "")) if isinstance(tokens, Mapping) else ""


def _fits(name: str, width: int) -> bool:
    return {"distilbert": 768, "minilm": 384, "stored": 384, "clip": 512}.get(name, width) == width


def _check_roles(motion: int, text: int, motion_latent: int, text_latent: int, parts: Parts) -> None:
    # The two networks have the same tensor names; only the input width tells them apart.
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


def _missing_stats(origin: str) -> Path:
    raise MotionkitError(
        f"no mean and std found beside {origin}.",
        why="TMR normalises motions with statistics of its own; with a generator's, scores are meaningless.",
        fix="point --reward.stats at TMR's stats/humanml3d/guoh3dfeats (mean.pt and std.pt).",
    )
