"""The short audit of a run's rewards, before it trains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from motionkit.contracts.dataset import TextMotionDataset, is_generated
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.plugins import in_words
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.sensitivity.audit import audit
from motionkit.text_to_motion.evaluation.sensitivity.bench import QUICK, Audited, Bench, Clips
from motionkit.text_to_motion.evaluation.sensitivity.words import SHIPPED, document, main_table, verdict

_CLIPS, _FEW = 64, 8
_SECONDS = 30.0
_PASSES = len(QUICK) + 3  # how often a clip is scored: after each change, as it is, and with an unrelated caption
_WHAT_THEN = "motionkit eval sensitivity shows it, and its gain will not be what you want"


@dataclass(frozen=True)
class Quick:
    """The result of `quick_audit`."""

    sentences: tuple[str, ...]  # one for each reward, and for their sum
    alarms: tuple[str, ...]  # defects of the sum that is trained on
    document: dict[str, Any]  # the figures, JSON-able, with the table of a page


def quick_audit(
    dataset: TextMotionDataset, split: Split, audited: Sequence[Audited], *, device: torch.device
) -> Quick | str:
    """Audit the rewards of a run on a few clips and changes; about two seconds for a reward on the starter.

    Rewards of another package may be slow: two clips are timed first, which gives the number of clips. If nothing could
    be measured, the reason is returned, and a run goes on without the audit.
    """
    known = {item.name: SHIPPED[item.name] for item in audited if item.shipped and item.name in SHIPPED}
    known = known if is_generated(dataset) else {}  # on other data they may see other things
    try:
        with torch.random.fork_rng(devices=[]):
            clips = Clips(dataset, split)
            limit = _CLIPS if all(item.own for item in audited) else _affordable(clips, audited, device)
            if limit < _FEW:
                return f"the rewards take more than {_SECONDS / (_FEW * _PASSES):.1g} s a clip"
            # Words of counts need a text encoder, which the starter's rewards do without: theirs are known.
            rows = QUICK if known else (*QUICK, "text-count")
            result = audit(clips, audited, device=device, limit=limit, rows=rows)
    except MotionkitError as error:
        return error.message
    except Exception as error:  # a plugin's reward may raise anything, and a run does not need this audit
        if all(item.own for item in audited):
            raise
        return f"a reward raised {in_words(error)}"
    if not result.rows:
        return "no clip of the split can be changed"
    verdicts = [verdict(result, name, known.get(name)) for name in result.names]
    trained = verdicts[-1]
    alarms = []
    if trained.dead:
        alarms.append(trained.sentence)
    elif not trained.reads_text and not trained.constant:
        alarms.append(f"the reward {trained.name} reads no text: it cannot know what captions ask for")
    elif trained.sees_nothing:
        asked = ", ".join(trained.topics("unseen"))
        why = f" ({asked})" if asked and not trained.constant else ""
        alarms.append(f"the reward {trained.name} sees nothing of what captions ask for{why}: {_WHAT_THEN}")
    figures = {"split": split, "clips": limit, **document(result, known), "table": main_table(result, "")}
    return Quick(tuple(reward.sentence for reward in verdicts), tuple(alarms), figures)


def _affordable(clips: Clips, audited: Sequence[Audited], device: torch.device) -> int:
    """Return how many clips can be scored in `_SECONDS`."""
    places = [place for place, _ in zip(clips.spread(), range(2), strict=False)]
    features = [clips.features(place) for place in places]
    prompts = [Prompt((clips.captions[place][0],), (len(rows),)) for place, rows in zip(places, features, strict=True)]
    begun = time.monotonic()
    Bench(audited, clips.skeleton, clips.fps, device).score(features, prompts)
    seconds = (time.monotonic() - begun) / len(places)
    return min(_CLIPS, int(_SECONDS / (max(seconds, 1e-6) * _PASSES)))
