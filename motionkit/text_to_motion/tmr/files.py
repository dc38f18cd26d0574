"""Opens a TMR from any layout in which its weights are published, and writes motionkit's.

`split_file` tells the parts of a file by their tensors, `find_stats` searches the statistics of the features,
`save_tmr` and `read_native` are motionkit's folder, and `load_tmr` and `open_tmr` open any of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from motionkit import weights
from motionkit.documents import value_at
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.nn import native_keys, stock_keys
from motionkit.runs import TENSORS, write_model
from motionkit.runs.forms import CONFIG, encoder_config, encoder_format
from motionkit.starter import table_path, weights_path
from motionkit.text import TextEncoder, TextRecord
from motionkit.text_to_motion.encoders import read_encoder, without_encoder
from motionkit.text_to_motion.tmr.model import TMR, ActorDecoder, ActorEncoder, ActorSizes, open_text_model
from motionkit.weights import components, describe, located

TEXT, MOTION, DECODER = "text_encoder", "motion_encoder", "motion_decoder"
# Some releases file the motion decoder under the name of the Guo evaluator's convolution.
_ALIASES = {"movement_encoder": DECODER}
_FIX = (
    "give the folder with text_encoder.pt and motion_encoder.pt (TMR's last_weights), one file that holds both, "
    "or a folder written by motionkit pretrain tmr."
)
_PAIRS = (("mean.pt", "std.pt"), ("mean.npy", "std.npy"), ("Mean.npy", "Std.npy"))
_BELOW = ("", "stats", "stats/motion")
_SETS = ("stats/humanml3d/guoh3dfeats", "stats/kitml/guoh3dfeats")
FORMAT = "motionkit-tmr"
_COMPONENTS = ("text_encoder", "motion_encoder", "motion_decoder")
_logger = logging.getLogger("motionkit.tmr")
_DEFAULT_HEADS = 4  # of released weights whose config.json is missing
_RUN_PART = "tmr"
STARTER = "starter"


@dataclass(frozen=True)
class Parts:
    """The networks of one TMR as flat tensors, and the files they came from, by network."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    origins: Mapping[str, str]


def split_file(obj: Any, origin: str) -> Parts:
    """Find TMR's networks in one file, in any nesting."""
    networks = components(obj) if isinstance(obj, Mapping) else {}
    parts = {_ALIASES.get(name, name): tensors for name, tensors in networks.items()}
    if not {TEXT, MOTION} <= parts.keys():
        content = describe(obj)
        alone = "TMR motion encoder" in content or "TMR text encoder" in content or "TMR encoder" in content
        raise MotionkitError(
            f"{origin} is not a complete TMR: it is {content}.",
            why="scoring needs the text and the motion encoder." if alone else "TMR is two transformer encoders.",
            fix="name both files with --reward.text-encoder and --reward.motion-encoder." if alone else _FIX,
        )
    for name in (TEXT, MOTION):
        _check_encoder(parts[name], obj, origin)
    return Parts(parts, dict.fromkeys(parts, origin))


def read_one(path: Path, role: str) -> Mapping[str, Tensor]:
    """Read the file of one network, wrapped or bare."""
    obj = weights.read(path)
    inner = components(obj) if isinstance(obj, Mapping) else {}
    inner = {_ALIASES.get(name, name): tensors for name, tensors in inner.items()}
    tensors = inner.get(role) or weights.find_tensors(obj)
    if tensors is None:
        raise MotionkitError(f"{path} is not a TMR {role}: it is {describe(obj)}.", fix=_FIX)
    if role != DECODER:
        _check_encoder(tensors, obj, str(path))
    return tensors


def _check_encoder(tensors: Mapping[str, Tensor], obj: Any, origin: str) -> None:
    if "projection.weight" not in tensors or "tokens" not in tensors:
        content = describe(obj)
        guo = "Guo" in content
        raise MotionkitError(
            f"{origin} is not a TMR encoder: it is {content}.",
            why="the two have the same component names, but other networks; loading one into the other would leave "
            "every weight random."
            if guo
            else "a TMR encoder has `tokens`, `projection` and `seqTransEncoder` tensors.",
            fix=f"use it with a reward of the evaluator (--reward mdm-matching --reward.weights {origin}) or as "
            f"--evaluator of motionkit eval text-to-motion; for a TMR {_FIX}"
            if guo
            else _FIX,
        )


def encoder_sizes(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorSizes:
    """Infer all sizes from the shapes, except the number of heads."""
    try:
        latent, features = tensors["projection.weight"].shape
        ff = tensors["seqTransEncoder.layers.0.linear1.weight"].shape[0]
        variational = tensors["tokens"].shape[0] == 2
    except (KeyError, ValueError, IndexError) as error:
        raise MotionkitError(f"{origin} is not a TMR encoder: it is {describe(tensors)}.", why=str(error)) from error
    return ActorSizes(features, latent, ff, _layers(tensors, origin), check_heads(heads, latent, origin), variational)


def decoder_sizes(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorSizes:
    """`encoder_sizes` for the decoder."""
    try:
        features, latent = tensors["final_layer.weight"].shape
        ff = tensors["seqTransDecoder.layers.0.linear1.weight"].shape[0]
    except (KeyError, ValueError, IndexError) as error:
        raise MotionkitError(
            f"{origin} is not a TMR motion decoder: it is {describe(tensors)}.",
            why=str(error),
            fix="leave the decoder out; a reward does not need it.",
        ) from error
    return ActorSizes(features, latent, ff, _layers(tensors, origin), check_heads(heads, latent, origin))


def check_heads(heads: int, latent: int, origin: str) -> int:
    """Return `heads`, which must divide the width."""
    if heads < 1 or latent % heads:
        raise MotionkitError(
            f"{heads} attention heads do not divide the latent width {latent} of {origin}.",
            why="a weight file does not contain the number of heads.",
            fix="give the right number with --reward.heads, or put the run's config.json beside the weights.",
        )
    return heads


def _layers(tensors: Mapping[str, Tensor], origin: str) -> int:
    """Return the number of layers; gaps in their numbers are refused, since a large number would take any memory."""
    result = {name.split(".")[2] for name in tensors if name.startswith("seqTrans") and ".layers." in name}
    if result != {str(number) for number in range(len(result))}:
        raise MotionkitError(f"the layers of {origin} are not numbered from 0 on.", fix="copy or download it again.")
    return len(result)


def build_encoder(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorEncoder:
    """Build and fill an encoder; missing and unknown tensors are errors."""
    sizes = encoder_sizes(tensors, heads, origin)
    return weights.build(lambda: ActorEncoder(sizes), native_keys(tensors), origin)


def build_decoder(tensors: Mapping[str, Tensor], heads: int, origin: str) -> ActorDecoder:
    """Build and fill a decoder."""
    sizes = decoder_sizes(tensors, heads, origin)
    return weights.build(lambda: ActorDecoder(sizes), native_keys(tensors), origin)


def find_stats(folders: Sequence[Path], named: str = "") -> Path | None:
    """Return the first folder at or below `folders` that holds a mean and a std file.

    Args:
        folders: Searched in this order.
        named: The folder in the weights' config.json (``normalizer.base_dir``); statistics of other datasets are not
            taken.
    """
    for folder in folders:
        sets = [below for below in _SETS if not named or Path(below).parts[-2:] == Path(named).parts[-2:]]
        result = [folder / below for below in (*([named] if named else []), *_BELOW) if _has_stats(folder / below)]
        of_sets = [folder / below for below in sets if _has_stats(folder / below)]
        if not result and len(of_sets) > 1:
            raise MotionkitError(
                f"{folder} holds the statistics of {len(of_sets)} datasets, and it is unknown which are this TMR's.",
                why="with those of another dataset, scores are meaningless.",
                fix=f"--reward.stats {of_sets[0]} or {of_sets[1]}; or put the run's config.json beside the weights.",
            )
        if result or of_sets:
            return (result or of_sets)[0]
    return None


def _has_stats(folder: Path) -> bool:
    return any((folder / mean).is_file() and (folder / std).is_file() for mean, std in _PAIRS)


def read_stats(folder: Path, width: int, named: str = "") -> tuple[Tensor, Tensor]:
    """Read ``[width]`` mean and std (``mean.pt``/``std.pt`` or ``.npy``) at or below `folder`; see `find_stats`."""
    place = find_stats([folder], named)
    if place is None:
        raise MotionkitError(
            f"{folder} holds no mean.pt/std.pt and no mean.npy/std.npy.",
            why="TMR's statistics differ from a generator's by up to 11 times.",
            fix=f"point --reward.stats at TMR's {named or _SETS[0]}.",
        )
    names = next(pair for pair in _PAIRS if (place / pair[0]).is_file() and (place / pair[1]).is_file())
    mean, std = (_vector(weights.read(place / name), place / name, width) for name in names)
    if not bool((std >= 0).all()):
        raise MotionkitError(f"{place / names[1]} holds a negative standard deviation.")
    if "Mean.npy" in names and (place / "Std.npy").is_file() and len(set(std.tolist())) <= width // 8:
        raise MotionkitError(
            f"{place} holds the statistics of a generator, not TMR's.",
            why=f"its {width} values have {len(set(std.tolist()))} distinct standard deviations: "
            "HumanML3D averages them by group, TMR keeps one per feature.",
            fix="point --reward.stats at TMR's stats/humanml3d/guoh3dfeats.",
        )
    return mean, std


def _vector(value: Any, path: Path, width: int) -> Tensor:
    tensor = weights.as_tensor(value)
    if tensor is None or tensor.numel() != width:
        size = type(value).__name__ if tensor is None else tensor.numel()
        raise MotionkitError(
            f"{path} has {size} values, this TMR reads {width} features.",
            fix="point --reward.stats at the statistics of this TMR.",
        )
    if not bool(tensor.isfinite().all()):
        raise MotionkitError(f"{path} holds values that are not finite.")
    return tensor.reshape(width).float()


def save_tmr(
    folder: Path,
    model: TMR,
    *,
    extra: Mapping[str, object] | None = None,
    half: bool = False,
    weights: bool = True,
) -> None:
    """Write a TMR folder: ``model.safetensors`` (weights and statistics) and ``config.json``.

    Each file is written aside and renamed. Tensor names are those of the three released files, prefixed with the
    component's.

    Args:
        folder: Created if it is missing.
        model: The model, with its decoder if it has one.
        extra: JSON-able additions to the config, such as the training settings.
        half: Store weights as float16 (statistics stay float32).
        weights: False writes only config.json, for a run whose checkpoints hold the weights.
    """
    tensors: dict[str, Tensor] = {}
    for name in _COMPONENTS:
        module = getattr(model, name)
        if module is not None:
            for key, value in stock_keys(module.state_dict()).items():
                tensors[f"{name}.{key}"] = (value.half() if half else value).detach().cpu().contiguous().clone()
    tensors["stats.mean"], tensors["stats.std"] = model.mean.cpu().clone(), model.std.cpu().clone()
    config = {
        "format": FORMAT,
        "schema": 1,
        "heads": model.motion_encoder.sizes.heads,
        "dropout": model.motion_encoder.sizes.dropout,
        "text": None
        if model.text_model is None
        else {**TextRecord.of(model.text_model).model_dump(), "width": model.text_model.width},
        **dict(extra or {}),
    }
    write_model(folder, CONFIG, config, tensors if weights else None)


def is_native(folder: Path) -> bool:
    """Whether `folder` was written by `save_tmr`."""
    return encoder_format(folder) == FORMAT


def text_record(config: Mapping[str, Any], origin: str) -> TextRecord:
    """Return the record of the text model in motionkit's config.json."""
    try:
        return TextRecord.model_validate(config.get("text") or {})
    except ValidationError as error:
        raise MotionkitError(f"{origin}: text is not a text model.", fix="copy the folder again.") from error


def read_native(folder: Path) -> tuple[dict[str, dict[str, Tensor]], Mapping[str, Any]]:
    """Return the tensors by component (``stats`` among them) and the config."""
    parts = read_encoder(folder)
    for name in ("text_encoder", "motion_encoder", "stats"):
        if name not in parts:
            raise MotionkitError(f"{folder / TENSORS} has no {name}.", fix="train it again: motionkit pretrain tmr")
    if not {"mean", "std"} <= parts["stats"].keys():
        raise MotionkitError(f"{folder / TENSORS} has no statistics.", fix="train it again: motionkit pretrain tmr")
    return parts, encoder_config(folder)


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
    """Open a TMR in eval mode; missing and unknown tensors are errors.

    Args:
        path: Folder written by motionkit, or the run that wrote it; a TMR run folder or its ``last_weights``; or one
            file in any layout.
        text_encoder: File of the text encoder, with `motion_encoder`, instead of `path`.
        motion_encoder: File of the motion encoder.
        motion_decoder: File of the decoder; optional.
        stats: Folder with TMR's mean and std; None: searched near the weights.
        text_model: See `open_text_model`, or an open encoder.
        table: Table of the text model ``stored``.
        heads: Attention heads; 0 reads them from config.json, else 4.
        device: Where the model goes.

    Example:
        >>> from motionkit import starter
        >>> tmr = load_tmr(starter.weights_path("tmr"), text_model="stored", table=starter.table_path())
        >>> tmr.encode_texts(["a man walks.", "someone walks."]).shape
        torch.Size([2, 128])
    """
    root = Path(path) if path is not None else None
    if root is not None and not root.exists():
        raise MotionkitError(
            f"{root} does not exist.", fix="give a TMR folder or file, or leave --reward.weights at 'starter'."
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
        known_heads = config.get("heads")
        record = text_record(config, str(root / CONFIG))
    else:
        parts = _foreign(root, text_encoder, motion_encoder, motion_decoder)
        nearby = _nearby(root or motion_encoder or Path())
        config = next((config for config in map(encoder_config, nearby) if config.get("model")), {})
        known_heads = value_at(config, "model", MOTION, "num_heads")
        record = TextRecord(encoder=_token_model(config, parts.tensors[TEXT]))
        named = str(value_at(config, "data", "motion_loader", "normalizer", "base_dir") or "")
        stats = stats or find_stats(nearby, named)
    heads = heads or _heads(known_heads, root or motion_encoder)
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
        # motionkit's motion encoders may read several frames per token; their statistics have the width of one.
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
    """Whether `folder` is the motionkit TMR of the path `asked`: a run that contains it, or a file in it."""
    return is_native(folder) and (folder.parent == asked or asked == folder / TENSORS)


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
    # Files of an evaluator and of motionkit's other models, for a clear message by `split_file`.
    single += [root / name for name in ("text_mot_match/model/finest.tar", "evaluator/model.safetensors", TENSORS)]
    for file in single:
        if file.is_file() and file.name not in {"mean.pt", "std.pt"}:
            return split_file(weights.read(file), str(file))
    if (root / "run.json").is_file():
        raise without_encoder(root, "TMR", "pretrain tmr", _FIX)
    raise MotionkitError(
        f"{root} holds no TMR.",
        why="it has neither text_encoder.pt and motion_encoder.pt, nor last_weights, nor one checkpoint file, nor a "
        "motionkit TMR.",
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
    """Return the folders that may have config.json and stats: that of the weights and two above it."""
    first = start if start.is_dir() else start.parent
    return [first, *list(first.parents)[:2]]


def _heads(heads: Any, origin: Path | None) -> int:
    if isinstance(heads, int) and not isinstance(heads, bool):
        return heads
    _logger.info(
        "%s: no config.json has its number of attention heads; %d are assumed, as in the released TMR "
        "(--reward.heads N sets another number)",
        origin,
        _DEFAULT_HEADS,
    )
    return _DEFAULT_HEADS


def _token_model(config: Mapping[str, Any], text: Mapping[str, Tensor]) -> str:
    """Return the name of motionkit's encoder for the tokens of a foreign TMR; empty if there is none."""
    name = value_at(config, "data", "text_to_token_emb", "modelname")
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
        why="TMR normalises motions with other statistics than a generator; with the latter scores are meaningless.",
        fix=f"point --reward.stats at TMR's {named or 'stats/humanml3d/guoh3dfeats'} (mean.pt and std.pt).",
    )


def text_table() -> Path | None:
    """Return the starter pack's table of text embeddings, or None if it is not built."""
    table = table_path()
    return table if table.is_file() else None


def open_tmr(
    weights: str | Path = STARTER,
    *,
    text_encoder: Path | None = None,
    motion_encoder: Path | None = None,
    motion_decoder: Path | None = None,
    heads: int = 0,
    stats: Path | None = None,
    text_model: str = "",
    device: torch.device | str = "cpu",
) -> TMR:
    """Open a TMR by name or path; other arguments as `load_tmr`.

    `weights` is ``starter``, ``starter:<name>`` for another network of the pack (``starter:judge``), or a path; it is
    ignored if single files are given.
    """
    return load_tmr(
        None if motion_encoder is not None or text_encoder is not None else _resolve(weights),
        text_encoder=text_encoder,
        motion_encoder=motion_encoder,
        motion_decoder=motion_decoder,
        heads=heads,
        stats=stats,
        text_model=text_model,
        table=text_table(),
        device=device,
    )


def _resolve(weights: str | Path) -> Path:
    head, _, name = str(weights).partition(":")
    return weights_path(name or "tmr") if head == STARTER else located(weights)
