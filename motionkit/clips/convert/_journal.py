"""The journal of a conversion: its plan, then a line for each finished source, so that the next process can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from motionkit.clips._walk import ClipOutcome
from motionkit.clips.convert._check_clip import ClipFacts
from motionkit.clips.convert._targets import Piece
from motionkit.documents import parse_json, read_text
from motionkit.errors import MotionkitError

Converted = ClipOutcome[ClipFacts | Piece]

_LIMIT = 256 << 20
"""Bytes of a journal; a source takes up to a kilobyte."""


def read_journal(path: Path, plan: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Converted]:
    """Return the outcomes of an earlier process by source id; an incomplete last line is skipped.

    Args:
        path: The journal; a missing one is empty.
        plan: Plan of this conversion; a journal with another plan counts as empty.
        sources: Fingerprint of each source by its id; outcomes of changed sources are left out.
    """
    done: dict[str, Converted] = {}
    try:
        # Not splitlines: it also breaks at U+2028 and the like, which JSON may hold as they are.
        first, *lines = read_text(path, limit=_LIMIT).split("\n")
        if _parsed(first, path) == {"plan": plan}:
            for line in lines:
                outcome = _outcome_of(_parsed(line, path)["outcome"])
                same = outcome.fingerprint and outcome.fingerprint == sources.get(outcome.key)
                if same and all((path.parent / file).is_file() for file in files_of(outcome)):
                    done[outcome.key] = outcome
    except (MotionkitError, ValueError, KeyError, TypeError):
        pass
    return done


def plan_line(plan: Mapping[str, Any]) -> str:
    """Return the first line of a journal."""
    return _line({"plan": plan})


def outcome_line(outcome: Converted) -> str:
    """Return the line of a finished source."""
    document = {
        "key": outcome.key,
        "origin": outcome.origin,
        "fingerprint": outcome.fingerprint,
        "clips": [asdict(result) for result in outcome.results if isinstance(result, ClipFacts)],
        "pieces": [asdict(result) for result in outcome.results if isinstance(result, Piece)],
        "problems": {key: error.sentence() for key, error in outcome.problems.items()},
    }
    return _line({"outcome": document})


def files_of(outcome: ClipOutcome[ClipFacts | Piece]) -> list[str]:
    """Return the files that were written for a source, inside the output folder."""
    return [file for result in outcome.results if isinstance(result, Piece) for file in result.files]


def _outcome_of(document: dict[str, Any]) -> ClipOutcome[ClipFacts | Piece]:
    """Rebuild the outcome of a journal's line (KeyError, TypeError for anything else)."""
    results: tuple[ClipFacts | Piece, ...] = tuple(map(_facts_of, document["clips"]))
    results += tuple(map(_piece_of, document["pieces"]))
    problems = {key: MotionkitError(sentence) for key, sentence in document["problems"].items()}
    return ClipOutcome(document["key"], document["origin"], document["fingerprint"], results, problems)


def _facts_of(facts: dict[str, Any]) -> ClipFacts:
    kept = None if facts["kept"] is None else (int(facts["kept"][0]), int(facts["kept"][1]))
    warnings, findings = tuple(facts["warnings"]), tuple(facts["findings"])
    return ClipFacts(**{**facts, "warnings": warnings, "findings": findings, "kept": kept})


def _piece_of(piece: dict[str, Any]) -> Piece:
    return Piece(**{**piece, "files": tuple(piece["files"])})


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"


def _parsed(line: str, path: Path) -> dict[str, Any]:
    return parse_json(line, str(path), dict, surrogates=True)
