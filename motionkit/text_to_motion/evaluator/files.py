"""Files of an evaluator: the released checkpoints, or a folder that motionkit writes, and a check of its statistics."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, Normalizer
from motionkit.runs import TENSORS, write_bytes_atomic
from motionkit.runs.forms import CONFIG, encoder_config, encoder_format
from motionkit.starter import weights_path
from motionkit.text_to_motion.encoders import read_encoder, without_encoder
from motionkit.text_to_motion.evaluator.model import (
    CONTACTS,
    EvaluatorSizes,
    MotionEncoder,
    MovementEncoder,
    T2MEvaluator,
    Tagger,
    TextEncoder,
    WordTable,
)
from motionkit.weights import components, describe, located

_STEMS = {263: "t2m_", 251: "kit_"}
_META = "Comp_v6_KLD*/meta"
_VOCABULARY = ("our_vab_data.npy", "our_vab_words.pkl", "our_vab_idx.pkl")
_ABOVE = 5
_DATASET_SPREAD = 0.45
"""Limit of the contacts' standard deviation over sqrt(p (1 - p)), with their mean p: it is 1 in a dataset's statistics,
0.04 in the released evaluators', whose feat_bias of 5 was applied twice (0.2 once)."""

_CLIPS = 256  # reference motions that statistics are checked on
_LEAST, _MOST = (
    0.2,
    5.0,
)  # standard deviations of normalised reference motions, median over the body's features; 1 expected
_CENTRE = 3.0  # largest mean of normalised reference motions, median over the body's features; 0 expected
_ROOT, _CONTACTS = 4, 4
MOVEMENT, MOTION, TEXT = "movement_encoder", "motion_encoder", "text_encoder"
NETWORKS = (MOVEMENT, MOTION, TEXT)
_FILE = "finest.tar"
_BELOW = ("", "model", "text_mot_match/model")
_SETS = ("t2m", "kit", "checkpoints/t2m", "checkpoints/kit")
_OTHERS = ("model.safetensors", "tmr/model.safetensors", "text_encoder.pt", "last_weights/text_encoder.pt")
FIX = (
    "give text_mot_match/model/finest.tar of the evaluator's download (t2m.zip or kit.zip), a folder that holds it, "
    "or a folder written by motionkit pretrain t2m-evaluator."
)
FORMAT = "motionkit-t2m-evaluator"
_AGAIN = "train it again: motionkit pretrain t2m-evaluator"
RUN_PART = "evaluator"  # folder of the model in a run of `pretrain t2m-evaluator`
STARTER = "starter"


def read_stats(named: Path | None, file: Path, width: int) -> tuple[Tensor, Tensor]:
    """Return the evaluator's mean and std ``[width]``.

    Args:
        named: The user's folder; ``mean.npy`` and ``std.npy``, or ``t2m_mean.npy`` and ``t2m_std.npy`` (``kit_...``),
            are in it or in its ``meta``.
        file: The checkpoint; without `named`, ``Comp_v6_KLD01/meta`` and ``dataset/t2m_mean.npy`` are searched above
            it.
        width: Features per frame.
    """
    stem = _STEMS.get(width, "")
    if named is not None:
        places = [named, named / "meta", *sorted(named.glob(_META))]
    else:
        # KLD01 is that of t2m; sorted() puts KLD005, kit's, before it, and a release has only one of them.
        places = [
            place
            for folder in _above(file)
            for place in (*sorted(folder.glob(_META), reverse=True), folder, folder / "dataset")
        ]
    for place in places:
        for prefix in ("", stem):
            pair = place / f"{prefix}mean.npy", place / f"{prefix}std.npy"
            if all(part.is_file() for part in pair) and (named is not None or prefix or place.name == "meta"):
                return _checked(*pair, width)
    looked = f"in {named}" if named is not None else f"beside {file}"
    raise MotionkitError(
        f"no mean and std of the evaluator {looked}.",
        why="it normalises motions with other statistics than the dataset's, with which its figures are meaningless.",
        fix="name the folder with Comp_v6_KLD01/meta/mean.npy and std.npy of the evaluator's download, or with "
        "t2m_mean.npy and t2m_std.npy of MDM's dataset folder: --reward.stats DIR (eval: --evaluator-stats DIR).",
    )


def _checked(mean_file: Path, std_file: Path, width: int) -> tuple[Tensor, Tensor]:
    mean, std = (_vector(path, width) for path in (mean_file, std_file))
    if not bool((std[:-CONTACTS] > 0).all()):
        raise MotionkitError(f"{std_file} holds a standard deviation that is not positive.", fix="copy it again.")
    # Contacts are 0 or 1, so their standard deviation follows from the mean p; all four have their average.
    share = mean[-CONTACTS:].double().clamp(0.0, 1.0)
    binary = float((share * (1 - share)).sqrt().mean())
    spread = float(std[-CONTACTS:].mean())
    if binary and spread / binary > _DATASET_SPREAD:
        stem = _STEMS.get(width, "")
        raise MotionkitError(
            f"{std_file} holds the statistics of the dataset, not the evaluator's.",
            why=f"its contacts have a standard deviation of {spread:.2g}, that of unscaled contacts; in the "
            "evaluator's, those of root and contacts are divided by 25.",
            fix=f"name the folder with the evaluator's meta, or with {stem}mean.npy and {stem}std.npy.",
        )
    return mean, torch.where(std > 0, std, 1.0)


def _above(file: Path) -> list[Path]:
    """Return the folders above a checkpoint, and if it is a link, then those above its target."""
    places = Path(os.path.abspath(file)), file.resolve()  # noqa: PTH100 (Path.absolute keeps "..")
    return list(dict.fromkeys(folder for place in places for folder in place.parents[:_ABOVE]))


def _vector(path: Path, width: int) -> Tensor:
    values = torch.from_numpy(weights.cast(weights.read_numbers(path, limit=1 << 20), np.float64))
    if values.numel() != width:
        raise MotionkitError(
            f"{path} has {values.numel()} values, this evaluator reads {width} features.",
            why="HumanML3D has 263 features, KIT-ML has 251.",
            fix="use the statistics that belong to this evaluator.",
        )
    if not bool(values.isfinite().all()):
        raise MotionkitError(f"{path} holds values that are not finite.", fix="copy it again.")
    return values.reshape(width).float()


def read_words(
    named: Path | None,  # the user's folder; the files are in it or in its ``glove``
    file: Path,  # the checkpoint; without `named`, a folder ``glove`` is searched above it
) -> WordTable:
    """Read the vocabulary of the released evaluators: ``our_vab_data.npy``, ``our_vab_words.pkl`` and ``_idx.pkl``."""
    above = _above(file) if named is None else [named]
    places = [place for folder in above for place in (folder, folder / "glove")]
    folders = [place for place in places if any((place / name).is_file() for name in _VOCABULARY)]
    folder = folders[0] if folders else places[0]
    missing = [name for name in _VOCABULARY if not (folder / name).is_file()]
    if missing:
        looked = f"beside {file}" if named is None else f"in {named}"
        raise MotionkitError(
            f"the word vectors of the evaluator are not {looked}: {', '.join(missing)} missing.",
            why="it reads captions as GloVe vectors, from our_vab_data.npy, our_vab_words.pkl and our_vab_idx.pkl.",
            fix="unpack glove.zip, which is published with the evaluator, and name its folder: --reward.glove DIR "
            "(eval: --glove DIR).",
        )
    data = weights.read_numbers(folder / _VOCABULARY[0])
    words, rows = (weights.read(folder / name) for name in _VOCABULARY[1:])
    if not isinstance(words, list) or not isinstance(rows, Mapping) or data.ndim != 2:
        raise MotionkitError(
            f"the files our_vab_* in {folder} are not a vocabulary.",
            why="a table, a list of words and their rows were expected.",
            fix="unpack glove.zip again.",
        )
    try:
        index = {str(word): _row(rows[word]) for word in words}
    except (KeyError, TypeError) as error:
        raise MotionkitError(
            f"{folder / _VOCABULARY[2]} does not fit {_VOCABULARY[1]}.", why=str(error), fix="unpack glove.zip again."
        ) from error
    return WordTable(torch.from_numpy(weights.cast(data, np.float32)), index, str(folder))


def _row(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{value!r} is not a row.")
    return int(value)


@dataclass(frozen=True)
class Networks:
    """The filled networks of an evaluator and their sizes."""

    movement: MovementEncoder
    motion: MotionEncoder
    text: TextEncoder
    sizes: EvaluatorSizes


def find_file(root: Path) -> Path:
    """Return the checkpoint at or below `root`, or the file of another model."""
    if root.is_file():
        return root
    result = [file for below in _BELOW if (file := root / below / _FILE).is_file()][:1]
    result = result or [file for name in _SETS if (file := root / name / "text_mot_match" / "model" / _FILE).is_file()]
    if len(result) > 1:
        raise MotionkitError(
            f"{root} holds {len(result)} evaluators.",
            why="each dataset has its own: t2m is HumanML3D's, kit is KIT-ML's.",
            fix=f"name one of them: {result[0]} or {result[1]}.",
        )
    # Files of other models that a folder may have, for a clear message by `split_file`.
    result = result or [file for name in _OTHERS if (file := root / name).is_file()]
    if result:
        return result[0]
    if (root / "run.json").is_file():
        raise without_encoder(root, "evaluator", "pretrain t2m-evaluator", FIX)
    raise MotionkitError(f"{root} holds no evaluator.", why=f"there is no {_BELOW[-1]}/{_FILE} in it.", fix=FIX)


def split_file(obj: Any, origin: str) -> Mapping[str, Mapping[str, Tensor]]:
    """Return the tensors of the three networks."""
    parts = components(obj) if isinstance(obj, Mapping) else {}
    content = describe(obj)
    if any("TMR" in describe(tensors) for tensors in (parts or {"": weights.find_tensors(obj) or {}}).values()):
        raise MotionkitError(
            f"{origin} is a TMR, not the text-to-motion evaluator: {content}.",
            why="the two have the same component names, but other networks.",
            fix=f"use it with a TMR reward (--reward tmr-dense --reward.weights {origin}); for an evaluator {FIX}",
        )
    missing = [name for name in NETWORKS if name not in parts]
    if missing:
        raise MotionkitError(
            f"{origin} is not the text-to-motion evaluator: it is {content}.",
            why=f"it has no {' and no '.join(missing)}.",
            fix=FIX,
        )
    return parts


def build(parts: Mapping[str, Mapping[str, Tensor]], origin: str) -> Networks:
    """Build and fill the networks; missing and unknown tensors are errors."""
    movement, motion, text = (parts[name] for name in NETWORKS)
    try:
        hidden, channels, _ = movement["main.0.weight"].shape
        sizes = EvaluatorSizes(
            features=channels + CONTACTS,
            movement_hidden=hidden,
            movement=movement["out_net.weight"].shape[0],
            motion_hidden=motion["input_emb.weight"].shape[0],
            text_hidden=text["input_emb.weight"].shape[0],
            latent=text["output_net.3.weight"].shape[0],
            word=text["input_emb.weight"].shape[1],
        )
    except (KeyError, ValueError, IndexError) as error:
        content = "; ".join(f"{name} = {describe(parts[name])}" for name in NETWORKS)
        raise MotionkitError(
            f"{origin} is not the text-to-motion evaluator: {content}.", why=f"missing or misshaped: {error}", fix=FIX
        ) from error
    return Networks(
        weights.build(lambda: MovementEncoder(sizes), movement, origin),
        weights.build(lambda: MotionEncoder(sizes), motion, origin),
        weights.build(lambda: TextEncoder(sizes), text, origin),
        sizes,
    )


def save_evaluator(
    folder: Path,
    model: T2MEvaluator,
    *,
    extra: Mapping[str, object] | None = None,
    half: bool = False,
    weights: bool = True,
) -> None:
    """Write an evaluator folder: ``model.safetensors`` (weights, statistics, word vectors) and ``config.json``.

    Each file is written aside and renamed. Tensor names are those of the released checkpoint, prefixed with the
    network's.

    Args:
        folder: Created if it is missing.
        model: The evaluator.
        extra: JSON-able additions to the config, such as the training settings.
        half: Store weights and word vectors as float16 (statistics stay float32).
        weights: False writes only config.json, for a run whose checkpoints hold the weights.
    """
    from safetensors.torch import save

    tensors = {
        f"{name}.{key}": value for name in NETWORKS for key, value in getattr(model, name).state_dict().items()
    } | {"words.vectors": model.words.vectors}
    stored = {
        key: (value.half() if half else value).detach().cpu().contiguous().clone() for key, value in tensors.items()
    }
    stored |= {"stats.mean": model.mean.cpu().clone(), "stats.std": model.std.cpu().clone()}
    config = {"format": FORMAT, "schema": 1, "tagger": model.tagger, "words": model.words.rows, **dict(extra or {})}
    folder.mkdir(parents=True, exist_ok=True)
    if weights:
        write_bytes_atomic(folder / TENSORS, save(stored))
    # The many words go on one line; they are before `extra`, which may have another "words".
    words = f'"words": {json.dumps(config["words"])}'
    text = json.dumps({**config, "words": None}, indent=2).replace('"words": null', words, 1)
    write_bytes_atomic(folder / CONFIG, (text + "\n").encode())


class Stored(NamedTuple):
    """Content of a folder: tensors by network, statistics, vocabulary, tagger, the data it was trained on."""

    parts: dict[str, dict[str, Tensor]]
    mean: Tensor
    std: Tensor
    words: WordTable
    tagger: Tagger
    trained_on: DataRecord | None


def is_native(folder: Path) -> bool:
    """Whether `folder` was written by `save_evaluator`."""
    return encoder_format(folder) == FORMAT


def read_native(folder: Path) -> Stored:
    """Read a folder of `save_evaluator`."""
    parts = read_encoder(folder)
    stats, vectors = parts.pop("stats", {}), parts.pop("words", {})
    config = encoder_config(folder)
    words = config.get("words")
    for name_of, present in (
        *((name, name in parts) for name in NETWORKS),
        ("statistics", {"mean", "std"} <= stats.keys()),
        ("word vectors", "vectors" in vectors),
    ):
        if not present:
            raise MotionkitError(f"{folder / TENSORS} has no {name_of}.", fix=_AGAIN)
    if not isinstance(words, dict) or not all(type(row) is int for row in words.values()):
        raise MotionkitError(f"{folder / CONFIG} has no list of words with their rows.", fix=_AGAIN)
    tagger: Tagger = "built-in" if config.get("tagger") == "built-in" else "auto"
    table = WordTable(vectors["vectors"], words, str(folder))
    return Stored(parts, stats["mean"], stats["std"], table, tagger, DataRecord.read(config))


def load_evaluator(
    path: str | Path, *, glove: Path | None = None, stats: Path | None = None, device: torch.device | str = "cpu"
) -> T2MEvaluator:
    """Open a text-to-motion evaluator in eval mode; missing and unknown tensors are errors.

    Args:
        path: ``finest.tar``; a folder that holds it, up to the ``checkpoints`` of the release; a folder written by
            motionkit, or the run that wrote it.
        glove: Folder of the ``our_vab_*`` files; None: searched above the checkpoint.
        stats: Folder with the evaluator's mean and std; None: searched above the checkpoint.
        device: Device of the model.
    """
    root = Path(path)
    if not root.exists():
        raise MotionkitError(f"{root} does not exist.", fix="give an evaluator's folder or file, or leave it out.")
    for folder in (root, root / RUN_PART, root.parent):
        if is_native(folder) and (folder in (root, root / RUN_PART) or root == folder / TENSORS):
            return _native(folder, glove, stats).to(device).eval()
    file = find_file(root)
    networks = build(split_file(weights.read(file), str(file)), str(file))
    mean, std = read_stats(stats, file, networks.sizes.features)
    words = read_words(glove, file)
    model = T2MEvaluator(
        networks.movement, networks.motion, networks.text, mean, std, words, sizes=networks.sizes, origin=str(file)
    )
    return model.to(device).eval()


def _native(folder: Path, glove: Path | None, stats: Path | None) -> T2MEvaluator:
    if glove is not None or stats is not None:
        raise MotionkitError(
            f"{folder} has its own {'statistics' if stats is not None else 'words'}.",
            why="an evaluator needs those it was trained with.",
            fix="leave the option out; it is for the released checkpoints.",
        )
    stored = read_native(folder)
    networks = build(stored.parts, str(folder))
    return T2MEvaluator(
        networks.movement,
        networks.motion,
        networks.text,
        stored.mean,
        stored.std,
        stored.words,
        sizes=networks.sizes,
        tagger=stored.tagger,
        origin=str(folder),
        trained_on=stored.trained_on,
    )


def open_evaluator(
    weights: str | Path = STARTER,
    *,
    glove: Path | None = None,
    stats: Path | None = None,
    device: torch.device | str = "cpu",
) -> T2MEvaluator:
    """Open a text-to-motion evaluator by name or path."""
    path = weights_path("evaluator") if str(weights) == STARTER else located(weights)
    return load_evaluator(path, glove=glove, stats=stats, device=device)


def doubt_of(
    evaluator: T2MEvaluator,
    clips: Sequence[TextClip],
    *,
    released: bool,
    dataset: Normalizer,
    known: Normalizer | None = None,
) -> str:
    """Return why the evaluator's figures are not valid; empty if no reason is known.

    Args:
        evaluator: What is checked.
        clips: Reference motions.
        released: Whether it has the layout of its authors, with a standard deviation of the root and the contacts 25
            times smaller than the dataset's (their ``feat_bias`` of 5, applied twice).
        dataset: Mean and Std of the dataset, for the generator.
        known: The evaluator's statistics in the dataset's folder, if there are any.
    """
    frames = torch.cat([clip.features.float() for clip in clips[:_CLIPS]]).to(evaluator.mean)
    body = slice(_ROOT, -_CONTACTS)
    normal = evaluator.normalize(frames)[:, body]
    spread, centre = float(normal.std(0).median()), float(normal.mean(0).abs().median())
    if not (_LEAST < spread < _MOST and centre < _CENTRE):
        return (
            f"the evaluator's statistics do not fit these motions: normalised, the reference motions have a median "
            f"standard deviation of {spread:.3g} and a mean of {centre:.3g}, instead of about 1 and 0"
        )
    if released and _alike(evaluator.std, dataset.std):
        return (
            "the evaluator was given the dataset's own Mean and Std; its own are those of Comp_v6_KLD01/meta "
            "(t2m_mean.npy, t2m_std.npy of MDM)"
        )
    if released and known is not None and not _alike(evaluator.std, known.std):
        return "the evaluator's statistics are not those that lie beside the dataset (t2m_std.npy)"
    return ""


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two standard deviations agree within 2 %, root and contacts included."""
    return first.shape == second.shape and bool(torch.allclose(first.cpu(), second.cpu().to(first.dtype), rtol=0.02))
