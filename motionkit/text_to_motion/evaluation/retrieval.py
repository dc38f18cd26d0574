"""Text-motion retrieval with a TMR, by the protocols (a) to (d) of Petrovich et al., "TMR" (ICCV 2023), section 4.1.

``normal``: all candidates; ``threshold``: all, and captions that mean nearly the same count as right; ``nsim``: items
whose captions are unlike each other; ``guo``: batches of 32, averaged.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.contracts.open_model import STARTER, FoundModel, open_model
from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.metrics import Ties, dissimilar, retrieval, retrieval_guo, retrieval_subset
from motionkit.text_to_motion.tmr.files import open_tmr
from motionkit.text_to_motion.tmr.model import TMR, encode_captions, encode_clips
from motionkit.tracking import table_of
from motionkit.weights import located

NSIM_ITEMS = 100  # items of protocol ``nsim`` without a list

_RELEASED = ("text_encoder.pt", "last_weights/text_encoder.pt")
_WAYS = {"t2m": "text to motion", "m2t": "motion to text"}
_COLUMNS = {"R01": "R@1", "R02": "R@2", "R03": "R@3", "R05": "R@5", "R10": "R@10", "MedR": "MedR"}


@dataclass(frozen=True)
class RetrievalResult:
    """The result of `measure_retrieval`."""

    # ``{protocol: {ties: {"t2m": {"R01": ...}, "m2t": ...}}}``, recalls in percent; for a protocol that cannot be used
    # ``{"why": ...}``.
    protocols: dict[str, dict[str, Any]]
    candidates: dict[str, int]  # items of each protocol
    notes: tuple[str, ...] = ()  # what a reader should know before comparing
    # Percent of queries whose first hit shows the action of the caption, side and tempo included, by direction; empty
    # if the dataset has no names of actions.
    right_action: Mapping[str, float] = field(default_factory=dict)

    def table(self, title: str) -> dict[str, Any]:
        """Return a table with a row per protocol, direction and convention of ties."""
        rows: list[tuple[object, ...]] = []
        for name, measured in self.protocols.items():
            label = f"{name} ({self.candidates[name]})"
            if "why" in measured:
                rows.append((label, "n/a", measured["why"]))
                continue
            for direction, words in _WAYS.items():
                for ties, values in measured.items():
                    rows.append((label, words, ties, *(f"{values[direction][key]:.2f}" for key in _COLUMNS)))
        count = self.candidates["normal"]
        for direction, share in self.right_action.items():
            rows.append((f"first hit shows the right action ({count})", _WAYS[direction], "average", f"{share:.2f}"))
        columns = ["protocol (candidates)", "direction", "ties", *_COLUMNS.values()]
        blank = ("",) * len(columns)
        full = [(*row, *blank[len(row) :]) for row in rows]
        return table_of(title, columns, full, range(3, len(columns)))


def open_retrieval(
    path: str, *, stats: Path | None = None, text_model: str = "", device: torch.device | str = "cpu"
) -> tuple[FoundModel, TMR]:
    """Open the TMR that a path holds: ``starter``, a run, a folder or a file."""
    if path.partition(":")[0] == STARTER:
        result = FoundModel(path, "rewards", "tmr-dense", "a TMR of the starter pack")
        return result, open_tmr(path, stats=stats, text_model=text_model, device=device)
    place = located(path)
    if place.is_dir() and any((place / name).is_file() for name in _RELEASED):
        result = FoundModel(path, "rewards", "tmr-dense", "a released TMR")
    else:
        result = open_model(path)
    is_evaluator = "evaluator" in result.what
    if result.kind != "rewards" or is_evaluator:
        wanted = shlex.join(["--evaluator", path] if is_evaluator else [path])
        raise MotionkitError(
            f"{result.describe()}; retrieval measures a TMR.", fix=f"motionkit eval text-to-motion {wanted}"
        )
    folder = place / "tmr" if (place / "tmr").is_dir() else place
    return result, open_tmr(folder, stats=stats, text_model=text_model, device=device)


def retrieval_protocols(
    similarity: Tensor,  # [N, N], rows = texts, columns = motions, in the order of the sorted keys
    sentences: Tensor,  # [N, F] unit-norm sentence embeddings
    subset: Sequence[int],  # items of protocol ``nsim``
    *,
    threshold: float,  # of protocol ``threshold``; 0.95 means a cosine above 0.90
    ties: Ties,  # see `motionkit.metrics.ranks`
) -> dict[str, dict[str, float]]:
    """Return all protocols that the number of items allows, each as `motionkit.metrics.retrieval` does."""
    result = {
        "normal": retrieval(similarity, ties=ties),
        "threshold": retrieval(similarity, sentences=sentences, threshold=threshold, ties=ties),
        "nsim": retrieval_subset(similarity, subset, ties=ties),
    }
    return result | ({"guo": retrieval_guo(similarity, ties=ties)} if len(similarity) >= 32 else {})


@torch.no_grad()
def measure_retrieval(
    tmr: TMR,
    clips: Sequence[TextClip],
    *,
    threshold: float = 0.95,
    nsim: Sequence[str] = (),
    action: Callable[[str], str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> RetrievalResult:
    """Measure retrieval with latent means, each clip with its first caption.

    Args:
        tmr: The model, with a text model.
        clips: Clips of one split.
        threshold: See `retrieval_protocols`.
        nsim: Keys of the items of protocol ``nsim``; empty chooses `NSIM_ITEMS` by `motionkit.metrics.dissimilar`.
        action: Returns the action of a caption, side and tempo included; empty if it is unknown.
        progress: Called with how many clips are done since its last call.
    """
    clips = sorted(clips, key=lambda clip: clip.key)
    if not clips:
        raise MotionkitError("there are no clips to retrieve.", fix="choose another split or dataset.")
    if tmr.text_model is None:
        raise MotionkitError(f"the TMR of {tmr.origin} has no text model.", fix="name one with --text-model.")
    tmr.check_width(clips[0].features)
    texts, sentences = encode_captions(tmr, [clip.captions[0] for clip in clips])
    similarity = texts @ encode_clips(tmr, [clip.features for clip in clips], progress=progress).T
    subset = _named(clips, nsim) if nsim else dissimilar(sentences, NSIM_ITEMS)
    by_ties = {
        ties: retrieval_protocols(similarity, sentences, subset, threshold=threshold, ties=ties)
        for ties in get_args(Ties)
    }
    protocols: dict[str, dict[str, Any]] = {
        name: {ties: _by_way(values[name]) for ties, values in by_ties.items()} for name in by_ties["average"]
    }
    if "guo" not in protocols:
        protocols["guo"] = {"why": f"batches of 32 need at least 32 clips, there are {len(clips)}"}
    counts = {"normal": len(clips), "threshold": len(clips), "nsim": len(subset), "guo": min(32, len(clips))}
    right = {} if action is None else right_action(similarity, [action(clip.captions[0]) for clip in clips])
    return RetrievalResult(protocols, counts, _notes(tmr, bool(nsim), len(subset)), right)


def right_action(similarity: Tensor, actions: Sequence[str]) -> dict[str, float]:
    """Return the percent of queries whose first hit shows the same action, by direction.

    If several hits tie for the first place, each counts for its share. Items without a known action are left out.

    Returns:
        ``t2m`` and ``m2t``; empty if no action is known.

    Example:
        >>> right_action(torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.3, 0.1], [0.2, 0.7, 0.6]]), ["a", "a", "b"])["t2m"]
        66.66667175292969
    """
    known = [place for place, name in enumerate(actions) if name]
    if not known:
        return {}
    names = [actions[place] for place in known]
    same = torch.tensor([[name == other for other in names] for name in names], device=similarity.device)
    result = {}
    for direction, rows in (("t2m", similarity), ("m2t", similarity.T)):
        rows = rows[known][:, known]
        first = rows == rows.amax(1, keepdim=True)
        result[direction] = float(100.0 * ((first & same).sum(1) / first.sum(1)).mean())
    return result


def read_nsim(path: Path) -> list[str]:
    """Read a list of keys, one per line, such as TMR's ``splits/nsim_test.txt``."""
    keys = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not keys:
        raise MotionkitError(f"{path} lists no clip.", fix="give the list of protocol nsim, or leave --nsim out.")
    return keys


def _named(clips: Sequence[TextClip], keys: Sequence[str]) -> list[int]:
    places = {clip.key: place for place, clip in enumerate(clips)}
    result = sorted({places[key] for key in keys if key in places})
    if len(result) < 2:
        raise MotionkitError(
            f"{len(result)} of the {len(keys)} clips of the nsim list are in this split.",
            fix="give the list of this dataset and split, or leave --nsim out.",
        )
    return result


def _by_way(values: dict[str, float]) -> dict[str, dict[str, float]]:
    return {way: {key: values[f"{way}/{key}"] for key in (*_COLUMNS, "len")} for way in _WAYS}


def _notes(tmr: TMR, listed: bool, count: int) -> tuple[str, ...]:
    assert tmr.text_model is not None
    notes = [
        f"threshold: sentences are compared by {tmr.text_model.name}; TMR's figures use all-mpnet-base-v2.",
        "ties average is TMR's convention; optimistic takes the best rank among equal similarities.",
    ]
    if not listed:
        notes.append(f"nsim: {count} items chosen here; --nsim FILE takes TMR's list.")
    return tuple(notes)
