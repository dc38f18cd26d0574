"""The figures of a full text-to-motion evaluation on embeddings of HumanML3D's size, against the plain loop."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.metrics import FrechetReference, random_pairs
from motionkit.text_to_motion.evaluation.protocol.figures import Sheet, embedding_figures, summarise

from .ratios import Ratios

GROUP = "figures of 4,384 motions in 512 dimensions, 20 replications"
CLIPS, WIDTH, REPLICATIONS = 4384, 512, 20
GOAL, MEMORY = 5.0, 2 << 30


def embeddings(replication: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts and generated motions of a replication; motions lie near their texts."""
    draw = torch.Generator().manual_seed(1000 + replication)
    text = torch.randn(CLIPS, WIDTH, generator=draw)
    return text, text + 1.2 * torch.randn(CLIPS, WIDTH, generator=draw) + 0.05


def real_motions() -> torch.Tensor:
    return torch.randn(CLIPS, WIDTH, generator=torch.Generator().manual_seed(0)) * 1.5


def ours(clock: list[float]) -> dict[str, float]:
    motions = real_motions()
    begun = time.process_time()
    real = FrechetReference(motions)
    clock.append(time.process_time() - begun)
    sheets: list[Sheet] = []
    for replication in range(REPLICATIONS):
        text, motion = embeddings(replication)
        begun = time.process_time()
        sheets.append(embedding_figures(text, motion, real, count=CLIPS, seed=replication))
        clock.append(time.process_time() - begun)
    return {name: one["mean"] for name, one in summarise(sheets).items() if one["mean"] is not None}


def plain(clock: list[float]) -> dict[str, float]:
    """The figures as their definitions read: a text and a batch of 32 at a time, both covariances in every replication,
    and the root of their product by a general eigendecomposition (a Schur form, as scipy's sqrtm takes, is slower)."""
    real = real_motions().numpy()
    rows: dict[str, list[float]] = {}
    for replication in range(REPLICATIONS):
        text, motion = (value.numpy() for value in embeddings(replication))
        begun = time.process_time()
        hits, own, seen = np.zeros(3), 0.0, 0
        for start in range(0, CLIPS // 32 * 32, 32):
            table = np.empty((32, 32))
            for i in range(32):
                for j in range(32):
                    table[i, j] = np.sqrt(((text[start + i] - motion[start + j]) ** 2).sum())
            order = np.argsort(table, axis=1)
            for i in range(32):
                place = int(np.where(order[i] == i)[0][0])
                hits += np.arange(3) >= place
                own += table[i, i]
            seen += 32
        m1, m2 = real.astype(np.float64).mean(0), motion.astype(np.float64).mean(0)
        c1, c2 = np.cov(real.astype(np.float64), rowvar=False), np.cov(motion.astype(np.float64), rowvar=False)
        roots = np.sqrt(np.linalg.eigvals(c1 @ c2).astype(complex)).real.sum()
        fid = ((m1 - m2) ** 2).sum() + np.trace(c1) + np.trace(c2) - 2 * roots
        first, second = (index.numpy() for index in random_pairs(CLIPS, 300, seed=replication))
        spread = np.mean([np.linalg.norm(motion[a] - motion[b]) for a, b in zip(first, second, strict=True)])
        found = {f"r_precision_{k}": hits[k - 1] / seen for k in (1, 2, 3)}
        for name, value in (found | {"mm_dist": own / seen, "fid": fid, "diversity": spread}).items():
            rows.setdefault(name, []).append(float(value))
        clock.append(time.process_time() - begun)
    return {name: float(np.mean(values)) for name, values in rows.items()}


@pytest.mark.benchmark
def test_figures_of_a_full_evaluation(ratios: Ratios) -> None:
    times = {}
    found = {}
    for name, run in (("plain loop", plain), ("motionkit", ours)):
        clock: list[float] = []
        found[name] = run(clock)
        times[name] = sum(clock)
        ratios.add(GROUP, name, times[name])
    assert found["motionkit"].keys() == found["plain loop"].keys()
    for name, value in found["plain loop"].items():
        assert found["motionkit"][name] == pytest.approx(value, rel=1e-6), name
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.benchmarks.test_evaluation"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    peak = json.loads(done.stdout)["peak"]
    ratios.tell(f"{GROUP}: memory", f"{'peak of the process':<44} {peak / 2**20:6.0f} MB")
    assert peak < MEMORY
    assert ratios.of(GROUP, "motionkit") >= GOAL, times


if __name__ == "__main__":
    ours([])
    sys.stdout.write(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
