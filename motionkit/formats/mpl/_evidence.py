"""What an exported file says about feet and actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._document import Document, Fields, is_number
from motionkit.rigs.contacts import ContactSpec, contact_score

ACTIONS = ("Idle", "Walk", "Run", "Jump")
"""What the four ActionBits stand for."""


def read_contacts(document: Document) -> tuple[Tensor, list[str]]:
    """Return ``[T, 2]`` soft contact scores, left and right, NaN where the file has none; and warnings.

    A foot without ``soft_contact_score`` that has its distance to the ground and its speeds is scored by the formula
    and the numbers of ``meta.foot_evidence.soft_score_spec``.

    Raises:
        MotionkitError: A score is no number.
    """
    scores = torch.full((len(document.rows), 2), math.nan, dtype=torch.float64)
    spec, gated = _spec(document)
    for index, row in enumerate(document.rows):
        evidence = row.get("FootEvidence")
        if not isinstance(evidence, Mapping):
            continue
        for foot, side in enumerate(("L", "R")):
            found = evidence.get(side)
            if isinstance(found, Mapping):
                scores[index, foot] = _score(found, spec, gated, f"{document.origin}: frame {index}, foot {side}")
    warnings = []
    outside = int(((scores < 0) | (scores > 1)).sum())
    if outside:
        warnings.append(f"{outside} foot contact score(s) lay outside 0 to 1 and were brought to the nearer end.")
    return scores.clamp(0.0, 1.0), warnings


def read_action(document: Fields) -> tuple[Tensor | None, list[str]]:
    """Return the action of each frame ``[T, A]``, from ActionBits or ClipAction, None without; and warnings."""
    bits = None
    if document.has("ActionBits"):
        bits = document.numbers("ActionBits", -1)
        bits = bits.long() if bool((bits == bits.round()).all()) else bits
    name = str(document.head.get("ClipAction") or "").rpartition("::")[2]
    if not name:
        return bits, []
    known = [action.lower() for action in ACTIONS]
    if name.lower() not in known:
        return bits, [f"ClipAction {name} is none of {', '.join(ACTIONS)}."]
    place = known.index(name.lower())
    if bits is None:
        one = torch.zeros(document.frames, len(ACTIONS), dtype=torch.int64)
        one[:, place] = 1
        return one, []
    if bits.shape[1] == len(ACTIONS) and not bool(bits[:, place].any()):
        return bits, [f"ClipAction says {name}, ActionBits never do; ActionBits were followed."]
    return bits, []


def _spec(document: Document) -> tuple[ContactSpec, bool]:
    table = document.meta.get("foot_evidence")
    table = table.get("soft_score_spec") if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping):
        return ContactSpec(), False
    named = {field.name: table[field.name] for field in fields(ContactSpec) if is_number(table.get(field.name))}
    return ContactSpec(**named), bool(table.get("gate_by_hit"))


def _score(foot: Mapping[str, object], spec: ContactSpec, gated: bool, origin: str) -> float:
    score = foot.get("soft_contact_score")
    if score is not None:
        if isinstance(score, float) and not math.isfinite(score):
            return math.nan
        if not is_number(score):
            raise MotionkitError(f"{origin}: soft_contact_score is {score!r}; a number from 0 to 1 was expected.")
        return float(score)
    measured = [foot.get(name) for name in ("dist_to_ground_m", "vz_mps", "vxy_mps")]
    numbers = [float(value) for value in measured if is_number(value)]
    if len(numbers) < len(measured):
        return math.nan
    if gated and foot.get("hit_flag") == 0:
        return 0.0
    distance, vertical, horizontal = torch.tensor(numbers, dtype=torch.float64)
    return float(contact_score(distance, vertical, horizontal, spec))
