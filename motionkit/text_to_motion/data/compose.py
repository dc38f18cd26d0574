"""Joins single clips into composite samples (`motionkit compose`).

A `Plan` says what is joined, and `draw_samples` draws clips, windows and captions. Towers compare the captions of a
sample (`similarities`). `compose` makes the samples with their motions, and `write_composed` writes the files of a set.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.page.wording import count
from motionkit.runs import require_writable, write_bytes_atomic
from motionkit.text import Prompt, TextEncoder
from motionkit.text_to_motion.data.clip_sets import FittingSets, extremes, least_kept, next_total
from motionkit.text_to_motion.data.composite import KIND, LIMIT, SCHEMA, TMR_LEAST, Metadata, Sample, Tower
from motionkit.text_to_motion.data.composite_set import Arrays, pack
from motionkit.text_to_motion.data.joined import (
    MIN_SEGMENT,
    Source,
    fingerprint,
    join_texts,
    read_sources,
    reference_joints,
    shared_groups,
)
from motionkit.text_to_motion.tmr.model import TMR

Windows = tuple[tuple[int, int], ...]
ATTEMPTS = 200  # most draws per requested sample, as in the original code
MDM_LONGEST = 196  # longest motion of the published MDM and of the starter's policy, in frames
BIN = 20  # frames per bin of the histogram of lengths
_CHUNK = 64  # texts encoded at a time
_log = logging.getLogger("motionkit.datasets")
_WIDTH = 120
_LEGACY_SAMPLE = (
    "composite_prompt", "sub_prompts", "durations", "durations_frames", "source_ids", "total_frames",
)  # fmt: skip
_LEGACY_METADATA = (
    "dataset_name", "split", "k_segments", "target_length", "tolerance", "fps", "num_samples",
)  # fmt: skip


def draw_captions(parts: Sequence[Source], rng: random.Random) -> tuple[tuple[str, ...], bool]:
    """Return a caption of each clip, and whether they are all different.

    Different captions are found if they exist (bipartite matching by augmenting paths). Captions that differ only in
    case, spaces or final punctuation are the same.
    """
    offers = [[text for text in part.clip.captions if text.strip()] for part in parts]
    for offer in offers:
        rng.shuffle(offer)
    owners: dict[str, tuple[int, str]] = {}

    def assign(part: int, tried: set[str]) -> bool:
        for text in offers[part]:
            words = " ".join(text.lower().split()).rstrip(".,;:!? ")
            if words in tried:
                continue
            tried.add(words)
            if words not in owners or assign(owners[words][0], tried):
                owners[words] = part, text
                return True
        return False

    assigned = [assign(part, set()) for part in rng.sample(range(len(parts)), len(parts))]
    captions = dict(owners.values())
    return tuple(captions.get(part, offers[part][0]) for part in range(len(parts))), all(assigned)


@dataclass(frozen=True)
class Plan:
    """Settings of `compose`."""

    split: Split = "train"
    k_segments: int = 3  # clips per sample, at least 2
    target_length: int = 196  # longest total in frames
    tolerance: int = 20  # totals are at least ``target_length - tolerance``
    max_samples: int = 1000
    seed: int = 0
    # Whether clips may be cut to windows of at least `joining.MIN_SEGMENT` frames; None: from four segments on.
    crop: bool | None = None

    @property
    def cuts(self) -> bool:
        """Whether clips may be cut."""
        return self.k_segments >= 4 if self.crop is None else self.crop

    @property
    def low(self) -> int:
        """Smallest total in frames."""
        return max(self.target_length - self.tolerance, 1)


@dataclass(frozen=True)
class Drawn:
    """One drawn sample, before its arrays are computed."""

    parts: tuple[Source, ...]  # its clips, in order
    windows: Windows  # half-open frame range of each clip
    texts: tuple[str, ...]  # caption of each clip


@dataclass(frozen=True)
class Drawing:
    """All samples that were drawn."""

    samples: tuple[Drawn, ...]  # at most as many as requested
    attempts: int  # number of sets examined
    exhausted: bool  # whether all sets that fit were examined
    repeats: int  # samples with one caption in two segments, because the clips have no others


def draw_samples(sources: Sequence[Source], plan: Plan) -> Drawing:
    """Draw samples uniformly without replacement from all sets of clips that fit.

    Of sets of the same motions (with other captioned parts) only the first is taken. Sets without different captions
    are used last.
    """
    sets = FittingSets(sources, plan.k_segments, low=plan.low, high=plan.target_length, crop=plan.cuts)
    rng = random.Random(f"compose {plan.seed} {plan.split} {plan.k_segments}")
    result: list[Drawn] = []
    alike: list[Drawn] = []
    seen: set[tuple[str, ...]] = set()
    attempts = 0
    for number in _any_order(sets.count, rng):
        if len(result) == plan.max_samples or attempts == ATTEMPTS * plan.max_samples:
            break
        attempts += 1
        places = list(sets.nth(number))
        rng.shuffle(places)
        parts = tuple(sources[place] for place in places)
        key = tuple(sorted(part.file for part in parts))
        if key in seen:
            continue
        texts, different = draw_captions(parts, rng)
        if different or len(alike) < plan.max_samples:
            seen.add(key)
            windows = _cut_windows(parts, plan.low, plan.target_length, rng)
            (result if different else alike).append(Drawn(parts, windows, texts))
    repeats = min(len(alike), plan.max_samples - len(result))
    return Drawing((*result, *alike[:repeats]), attempts, attempts == sets.count, repeats)


def _any_order(count: int, rng: random.Random) -> Iterator[int]:
    """Yield 0 .. count - 1 in random order (a lazy Fisher-Yates shuffle that stores swapped items only)."""
    moved: dict[int, int] = {}
    at = 0
    while at < count:
        swap = rng.randrange(at, count)
        yield moved.get(swap, swap)
        moved[swap] = moved.pop(at, at)
        at += 1


def _cut_windows(parts: Sequence[Source], low: int, high: int, rng: random.Random) -> Windows:
    """Return the half-open frame range of each clip of a set that fits `low` .. `high`.

    Clips are whole unless their total is too long. Then a total is drawn, each clip gets its minimum, and the other
    frames are divided among the clips about uniformly; the starts of the windows are drawn too.
    """
    lengths = [part.frames for part in parts]
    sizes = list(lengths)
    if sum(lengths) > high:
        sizes = [least_kept(part, crop=True) for part in parts]
        spare = rng.randint(max(low, sum(sizes)), high) - sum(sizes)
        weights = [1] * len(parts)
        for _ in range(spare):
            # A Polya urn divides the frames, uniformly up to the limits by the clips' lengths.
            growing = [k for k, length in enumerate(lengths) if sizes[k] < length]
            (k,) = rng.choices(growing, [weights[k] for k in growing])
            sizes[k] += 1
            weights[k] += 1
    starts = [rng.randint(0, length - frames) for length, frames in zip(lengths, sizes, strict=True)]
    return tuple((start, start + frames) for start, frames in zip(starts, sizes, strict=True))


def none_fits(sources: Sequence[Source], plan: Plan, name: str) -> MotionkitError:
    """Return the error for a plan that no clips fit, with a target length that some fit."""
    clips, where = plan.k_segments, f"the {plan.split} split of {name}"
    reach = extremes(sources, clips, crop=plan.cuts)
    if reach is None:
        groups = len({source.group for source in sources})
        return MotionkitError(
            f"samples of {clips} segments need {clips} different clips; {where} has {groups}.",
            fix=f"--k-segments {groups} or fewer." if groups > 1 else "",
        )
    smallest, largest = reach
    if smallest > plan.target_length:
        most = largest + plan.tolerance
        fixes = [f"--target-length {smallest} is the smallest that fits {clips} segments, {most} the largest"]
        if not plan.cuts and plan.target_length >= MIN_SEGMENT * clips:
            fixes.append("--crop, which cuts clips to windows")
        if clips > 2:
            long = f", as most policies make at most {MDM_LONGEST} frames" if smallest > MDM_LONGEST else ""
            fixes.append(f"fewer segments{long}")
    elif largest < plan.low:
        fixes = [
            f"--target-length {largest + plan.tolerance} is the largest that fits {clips} segments",
            "more segments",
        ]
    else:
        further = next_total(sources, clips, above=plan.target_length, crop=plan.cuts)
        fixes = [f"--target-length {further} is the next that fits {clips} segments", "a larger --tolerance"]
    cut = f"a cut window has at least {MIN_SEGMENT} frames, and shorter clips stay whole: " if plan.cuts else ""
    return MotionkitError(
        f"no {clips} clips of {where} add up to {plan.low}..{plan.target_length} frames.",
        why=f"{cut}{clips} different clips have {smallest} to {largest} frames together.",
        fix="; or ".join(fixes) + ".",
    )


def too_few(drawing: Drawing, plan: Plan, sources: Sequence[Source], histogram: dict[int, int]) -> str:
    """Return the warning that there are fewer samples than requested, with the lengths of the clips."""
    bins = ", ".join(f"{start}-{start + BIN - 1}: {clips}" for start, clips in histogram.items())
    reason = "no other clips fit" if drawing.exhausted else f"the limit of {ATTEMPTS} draws per sample was reached"
    return (
        f"{len(drawing.samples)} samples instead of {plan.max_samples}: {reason} ({drawing.attempts} draws from "
        f"{len(sources)} clips). Clips by length in frames: {bins}."
    )


def alike(drawing: Drawing) -> str:
    """Return the warning that captions repeat within samples."""
    return (
        f"{drawing.repeats} of {len(drawing.samples)} samples have one caption in two segments, because their clips "
        "have no others: a reward that compares the segments of a sample cannot tell these apart."
    )


def leaks(dataset: TextMotionDataset, split: Split, sources: Sequence[Source]) -> list[str]:
    """Return a warning for each other split that has motions of `sources` too."""
    return [
        f"{count(len(groups), 'motion')} of the {split} split also in the {other_split} split (such as {groups[0]}): a "
        "model trained on one split would be measured on its training data in the other."
        for other_split, groups in shared_groups(dataset, split, sources).items()
    ]


class TextTower(Protocol):
    """Encodes texts as vectors that are compared by cosine, for B-matrices."""

    name: str  # for the file's metadata
    fingerprint: str  # changes if a text would get another vector

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return ``[N, D]``."""
        ...


class TmrTower:
    """The text encoder of a TMR."""

    def __init__(self, tmr: TMR, name: str) -> None:
        text_model = tmr.text_model
        self.name = f"tmr {name}"
        self.fingerprint = f"tmr-{_digest(tmr.text_encoder)}-{text_model.fingerprint if text_model else 'none'}"
        self._tmr = tmr.eval()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent means ``[N, D]``."""
        return self._tmr.encode_texts(texts).detach().cpu()


class EncoderTower:
    """A plain text encoder; a text is the mean of its tokens."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self._encoder = encoder

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the mean token ``[N, F]``."""
        features = self._encoder.encode(texts)
        mask = features.mask[..., None].to(features.tokens.dtype)
        return (features.tokens * mask).sum(1) / mask.sum(1)


def similarities(
    prompts: Sequence[Sequence[str]],  # N times K texts; each distinct text is encoded once
    tower: TextTower,
    progress: Callable[[int], None] | None = None,  # called with the number of texts in each chunk
) -> Tensor:
    """Return the cosines between the texts of each sample, ``[N, K, K]`` float32, 1 on the diagonal."""
    texts = list(dict.fromkeys(text for row in prompts for text in row))
    vectors = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        vectors.append(functional.normalize(tower.encode_texts(chunk).double(), dim=-1))
        if progress is not None:
            progress(len(chunk))
    places = {text: place for place, text in enumerate(texts)}
    rows = torch.cat(vectors)[torch.tensor([[places[text] for text in row] for row in prompts])]
    cosines = (rows @ rows.transpose(1, 2)).clamp(-1.0, 1.0)
    cosines.diagonal(dim1=1, dim2=2).fill_(1.0)
    return cosines.float()


def _digest(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Composed:
    """A composite set in memory."""

    metadata: Metadata  # how it was made
    samples: tuple[Sample, ...]
    arrays: Arrays  # statistics, reference motions and B-matrices
    asked: int  # samples requested
    attempts: int  # number of draws
    histogram: dict[int, int]  # number of usable clips by the lower end of a bin of 20 frames
    warnings: tuple[str, ...]  # for the user


def compose(
    dataset: TextMotionDataset,
    plan: Plan,
    *,
    tower: TextTower | None = None,
    progress: Callable[[int], None] | None = None,
) -> Composed:
    """Join clips of one split into samples of K actions, the same ones for the same seed; see `draw_samples`."""
    if dataset.name == "composite":
        raise MotionkitError("composite data are composed already.", fix="name the dataset of the single clips.")
    sources = read_sources(dataset, plan.split)
    drawing = draw_samples(sources, plan)
    if not drawing.samples:
        raise none_fits(sources, plan, dataset.name)
    warnings = leaks(dataset, plan.split, sources)
    histogram = dict(sorted(Counter(source.frames // BIN * BIN for source in sources).items()))
    if len(drawing.samples) < plan.max_samples:
        warnings.append(too_few(drawing, plan, sources, histogram))
    if drawing.repeats:
        warnings.append(alike(drawing))
    samples, joints = [], []
    for number, drawn in enumerate(drawing.samples):
        samples.append(_sample(number, drawn, plan, dataset.fps))
        joints.append(_motion(drawn, dataset))
        if progress is not None:
            progress(1)
    short = sum(any(sample.outside_tmr_range) for sample in samples)
    if short:
        warnings.append(
            f"{short} of {len(samples)} samples have a segment under {TMR_LEAST:g} s ({TMR_LEAST * dataset.fps:g} "
            "frames), shorter than TMR's training motions; outside_tmr_range marks them."
        )
    metadata = Metadata(
        dataset_name=dataset.name,
        split=plan.split,
        k_segments=plan.k_segments,
        target_length=plan.target_length,
        tolerance=plan.tolerance,
        fps=dataset.fps,
        num_samples=len(samples),
        seed=plan.seed,
        crop=plan.cuts,
        skeleton=dataset.skeleton.name,
        source=fingerprint(dataset, plan.split, sources, (part for drawn in drawing.samples for part in drawn.parts)),
        text_tower=Tower(name=tower.name, fingerprint=tower.fingerprint) if tower is not None else None,
        physics_reference=_physics(dataset),
    )
    similarity = similarities([sample.sub_prompts for sample in samples], tower) if tower is not None else None
    arrays = Arrays(dataset.normalizer, tuple(joints), similarity)
    return Composed(metadata, tuple(samples), arrays, plan.max_samples, drawing.attempts, histogram, tuple(warnings))


def _sample(number: int, drawn: Drawn, plan: Plan, fps: float) -> Sample:
    texts, windows, parts = drawn.texts, drawn.windows, drawn.parts
    frames = tuple(end - start for start, end in windows)
    key = f"composite-{plan.split}-k{plan.k_segments}-s{plan.seed}-{number:05d}"
    return Sample(
        id=key,
        text=Prompt(texts, frames).text,
        composite_prompt=join_texts(texts),
        sub_prompts=texts,
        durations=tuple(count / fps for count in frames),
        durations_frames=frames,
        source_ids=tuple(part.file for part in parts),
        source_frames=tuple(
            (part.start + start, part.start + end) for part, (start, end) in zip(parts, windows, strict=True)
        ),
        outside_tmr_range=tuple(count / fps < TMR_LEAST for count in frames),
        total_frames=sum(frames),
    )


def _motion(drawn: Drawn, dataset: TextMotionDataset) -> Tensor:
    pieces = [part.clip.features[start:end] for part, (start, end) in zip(drawn.parts, drawn.windows, strict=True)]
    joints = reference_joints(pieces, dataset.skeleton, dataset.fps)
    if not bool(joints.isfinite().all()):
        broken = next(
            part.clip.key for part, piece in zip(drawn.parts, pieces, strict=True) if not piece.isfinite().all()
        )
        raise MotionkitError(f"clip {broken} of {dataset.name} is not finite (NaN or infinite).")
    return joints.float()


def _physics(dataset: TextMotionDataset) -> tuple[float, float] | None:
    """Return the reference of the physics reward, or None if the dataset has no training clips."""
    try:
        return dataset.physics_reference()
    except MotionkitError as error:
        _log.warning("the physics reward will have no reference: %s", error.message)
        return None


@dataclass(frozen=True)
class Written:
    """The files of a set."""

    document: Path  # JSON with the samples
    arrays: Path
    legacy: Path | None  # the original code's file, if it was requested or exists already


def planned_files(out: Path, plan: Plan, *, legacy: bool, overwrite: bool) -> Written:
    """Return the paths of the files.

    A file in the original code's format that exists is written again even if it is not requested, so that both have the
    same set.
    """
    if out.exists() and not out.is_dir():
        raise MotionkitError(f"{out} is a file; OUT is a folder.", fix="choose another OUT.")
    stem = f"composite_k{plan.k_segments}_{plan.split}"
    old = out / f"{stem}.npy"
    files = Written(out / f"{stem}.json", out / f"{stem}.npz", old if legacy or old.exists() else None)
    existing = [path for path in (files.document, files.arrays, files.legacy) if path is not None and path.exists()]
    if existing and not _is_composed(files.document):
        raise MotionkitError(
            f"{existing[0]} already exists, and compose did not make it.",
            why="it will not be touched, with or without --overwrite.",
            fix="choose another OUT.",
        )
    if existing and not overwrite:
        raise MotionkitError(f"{existing[0]} already exists.", fix="choose another OUT, or add --overwrite.")
    for path in (files.document, files.arrays, files.legacy):
        if path is not None:
            require_writable(path, parents=True)
    return files


def _is_composed(path: Path) -> bool:
    """Whether a file was written by `compose`, in any version."""
    try:
        return read_json(path, dict, limit=LIMIT).get("kind") == KIND
    except MotionkitError:
        return False


def write_composed(composed: Composed, files: Written) -> None:
    """Write a set; the arrays come first, so that a JSON file never exists without its arrays.

    If the process dies in between, the old JSON file remains, and the hash in it does not match the new arrays.
    """
    files.document.parent.mkdir(parents=True, exist_ok=True)
    data = pack(composed.arrays)
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "metadata": composed.metadata.model_dump(mode="json"),
        "arrays": {"file": files.arrays.name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
        "samples": [sample.model_dump(mode="json") for sample in composed.samples],
    }
    write_bytes_atomic(files.arrays, data)
    write_bytes_atomic(files.document, (_as_text(document) + "\n").encode())
    if files.legacy is not None:
        write_bytes_atomic(files.legacy, legacy_bytes(composed))


def _as_text(value: Any, indent: int = 0) -> str:
    """Return JSON with short containers on one line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if indent + len(line) <= _WIDTH or not value or not isinstance(value, (dict, list)):
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_as_text(item, indent + 1)}" for name, item in value.items()]
    else:
        items = [_as_text(item, indent + 1) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(" " * (indent + 1) + item for item in items)
    return f"{start}\n{inner}\n{' ' * indent}{end}"


def legacy_bytes(composed: Composed) -> bytes:
    """Return the original code's file: ``np.save`` of a dict, read by ``np.load(allow_pickle=True)[None][0]``.

    A B-matrix goes into each sample as ``B_matrix``, as in its guide.
    """
    samples: list[dict[str, Any]] = []
    similarity = composed.arrays.similarity
    for number, sample in enumerate(composed.samples):
        values = sample.model_dump(mode="json")
        samples.append({name: values[name] for name in _LEGACY_SAMPLE})
        if similarity is not None:
            samples[-1]["B_matrix"] = similarity[number].tolist()
    metadata = composed.metadata.model_dump(mode="json")
    value = {"samples": samples, "metadata": {name: metadata[name] for name in _LEGACY_METADATA}}
    buffer = io.BytesIO()
    np.save(buffer, np.array(value, dtype=object), allow_pickle=True)
    return buffer.getvalue()
