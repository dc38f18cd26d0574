"""The short audit of a run's own rewards, before it trains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from motionkit.contracts.dataset import Split, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.plugins import in_words
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.sensitivity.audit import audit
from motionkit.text_to_motion.evaluation.sensitivity.bench import QUICK, Audited, Bench, Clips
from motionkit.text_to_motion.evaluation.sensitivity.words import document, main_table, verdict

_CLIPS, _FEW = 64, 8
_SECONDS = 30.0
_PASSES = len(QUICK) + 2  # how often a clip is scored: changed in each way, as it is, and with an unrelated caption


@dataclass(frozen=True)
class Quick:
    """What a run says of its rewards."""

    sentences: tuple[str, ...]  # one for each reward, and for their sum
    alarms: tuple[str, ...]  # what is wrong with what is trained on
    document: dict[str, Any]  # the figures, JSON-able, with the table of a page


def quick_audit(
    dataset: TextMotionDataset, split: Split, audited: Sequence[Audited], *, device: torch.device
) -> Quick | str:
    """Audit the rewards of a run on a few clips and changes; about two seconds for a reward on the starter.

    A reward of another package may be slow: it is first asked for a few clips, and the number of clips follows from how
    long that takes.

    Returns:
        What was found, or why nothing could be measured: a run goes on without it.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            clips = Clips(dataset, split)
            limit = _CLIPS if all(item.own for item in audited) else _affordable(clips, audited, device)
            if limit < _FEW:
                return f"the rewards take more than {_SECONDS / (_FEW * _PASSES):.1g} s a clip"
            result = audit(clips, audited, device=device, limit=limit, rows=QUICK)
    except MotionkitError as error:
        return error.message
    except Exception as error:  # a plugin's reward may raise anything, and a run does not need this audit
        if all(item.own for item in audited):
            raise
        return f"a reward raised {in_words(error)}"
    if not result.rows:
        return "no clip of the split can be changed"
    verdicts = {name: verdict(result, name) for name in result.names}
    trained = verdicts[result.names[-1]]
    alarms = []
    if trained.dead:
        alarms.append(trained.sentence)
    elif not trained.reads_text and not trained.constant:
        alarms.append(f"the reward {trained.name} reads no text: it cannot know what captions ask for")
    elif trained.sees_nothing:
        asked = ", ".join(trained.topics("unseen"))
        why = f" ({asked})" if asked and not trained.constant else ""
        alarms.append(f"the reward {trained.name} sees nothing of what captions ask for{why}: {_WHAT_THEN}")
    made = {"split": split, "clips": limit, **document(result), "table": main_table(result, "")}
    return Quick(tuple(one.sentence for one in verdicts.values()), tuple(alarms), made)


_WHAT_THEN = "motionkit eval sensitivity shows it, and its gain will not be what you want"


def _affordable(clips: Clips, audited: Sequence[Audited], device: torch.device) -> int:
    """Return how many clips can be scored in `_SECONDS`."""
    places = [place for place, _ in zip(clips.spread(), range(2), strict=False)]
    features = [clips.features(place) for place in places]
    prompts = [Prompt((clips.captions[place][0],), (len(rows),)) for place, rows in zip(places, features, strict=True)]
    begun = time.monotonic()
    Bench(audited, clips.skeleton, clips.fps, device).score(features, prompts)
    each = (time.monotonic() - begun) / len(places)
    return min(_CLIPS, int(_SECONDS / (max(each, 1e-6) * _PASSES)))
