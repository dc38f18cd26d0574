"""The contract of a loop of self-play."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from motionkit.config import choose_one
from motionkit.evaluation.regions._task import Task, open_task
from motionkit.policies.base import RegionPolicy
from motionkit.rl import RowNoise
from motionkit.testing._component import check_component
from motionkit.testing._report import Findings
from motionkit.trainers.sa2va_rl.loops.base import Played, Turn

_REGIONS, _GROUP = 2, 4


def check_loop(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `sa2va-rl` relies on in every loop, by playing it with the starter's policy on drawn shapes.

    What a loop makes has a row for each sample; at first every ratio is 1 and every KL 0; the log-ratios have a
    gradient; the same noise gives the same samples.

    Args:
        name: Name of the loop.
        options: Its options.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("loops", name)
    found = Findings(f"loop {name!r}")
    policy: RegionPolicy = choose_one("policies", "tiny-sa2va", {}).build(device="cpu", dataset=None)
    loop = choose_one("loops", name, dict(options or {})).build(policy=policy)
    task = _task(policy)
    measured = loop.measure(task)

    def play() -> Played:
        noise = RowNoise((0,), len(task.captions))
        played: Played = loop.play(task, Turn(nullcontext, nullcontext, noise, 1.0, measured))
        return played

    played = play()
    count = len(task.captions)
    found.expect(len(played.made.masks) == count, f"made.masks has {len(played.made.masks)} rows, not {count}.")
    found.expect(len(played.made.texts) == count, f"made.texts has {len(played.made.texts)} rows, not {count}.")
    found.close()
    again = play()
    same = torch.equal(again.made.masks.masks, played.made.masks.masks)
    same = same and list(again.made.texts.texts) == list(played.made.texts.texts)
    found.expect(same, "The same noise gives other samples; draw from turn.noise alone.")
    for parameter in policy.network.parameters():
        parameter.requires_grad_(True)
    if played.direct is not None:
        loss = played.direct(torch.zeros(count))
        found.expect(tuple(loss.shape) == (count,), f"direct gives {tuple(loss.shape)}, not ({count},).")
    else:
        terms = played.terms()
        shape = tuple(terms.log_ratio.shape)
        found.expect(shape[:1] == (count,) and len(shape) == 2, f"log_ratio is {shape}, not ({count}, S).")
        for part in (terms.kl, terms.mask):
            found.expect(tuple(part.shape) == shape, f"a term is {tuple(part.shape)}, log_ratio {shape}.")
        off = float(terms.log_ratio.detach()[terms.mask].abs().max())
        found.expect(off < 1e-4, f"Before any update the log-ratio is {off}, not 0.")
        found.expect(float(terms.kl.detach()[terms.mask].abs().max()) < 1e-4, "Before any update the KL is not 0.")
        loss = terms.log_ratio.sum()
    found.expect(loss.requires_grad, "The log-ratios have no gradient; compute them anew in terms().")
    found.close()


def _task(policy: RegionPolicy) -> Task:
    data = choose_one("datasets", "shapes", {}).build()
    return open_task(policy, data.regions("train", np.arange(_REGIONS))).repeated(_GROUP)
