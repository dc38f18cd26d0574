"""HumanML3D features of a clip of 170 frames and of 64 such clips: joint by joint, and all at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from motionkit.motion import HUMANML, joints_to_features
from motionkit.starter import CATALOGUE, Order, perform

from .plain_features import plain_features
from .ratios import Ratios

FRAMES, CLIPS = 170, 64


def fastest(slow: Callable[[], object], fast: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the shortest time of each, measured in turns so that a busy machine slows both."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for place, (work, times) in enumerate(((slow, 1), (fast, 8))):
            for _ in range(times):
                started = time.perf_counter()
                work()
                best[place] = min(best[place], time.perf_counter() - started)
    return best[0], best[1]


@pytest.mark.benchmark
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_extraction(ratios: Ratios, dtype: torch.dtype) -> None:
    """In the precision of feature files one clip is 10 times faster and a batch 20 times; in double, 10 and 10."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    names = [entry.name for entry in CATALOGUE]
    clips = perform([Order(names[number % len(names)], FRAMES, number) for number in range(CLIPS)])
    batch = torch.from_numpy(np.stack([clip.joints for clip in clips])).to(dtype)
    joints = batch.numpy()
    plain = np.stack([plain_features(clip, HUMANML) for clip in joints])
    made = joints_to_features(batch, HUMANML, peer_turns=True).numpy()
    # The same numbers, but for bones that point against their rest direction, whose turns hang on rounding.
    assert np.quantile(np.abs(made - plain), 0.999) < (1e-9 if dtype is torch.float64 else 1e-4)
    single = fastest(
        lambda: plain_features(joints[0], HUMANML), lambda: joints_to_features(batch[0], HUMANML), rounds=30
    )
    many = fastest(
        lambda: [plain_features(clip, HUMANML) for clip in joints], lambda: joints_to_features(batch, HUMANML), rounds=3
    )
    torch.set_num_threads(before)
    name = str(dtype).removeprefix("torch.")
    goals = (10, 20 if dtype is torch.float32 else 10)
    for clips_in, (slow, fast), goal in ((1, single, goals[0]), (CLIPS, many, goals[1])):
        group = f"features of {clips_in} clip(s) of {FRAMES} frames, {name}"
        ratios.add(group, f"joint by joint ({1e3 * slow:.1f} ms)", slow)
        ratios.add(group, f"all at once ({1e3 * fast:.2f} ms)", fast)
        assert slow / fast >= goal, group
