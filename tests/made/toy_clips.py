"""A folder in HumanML3D's layout in which each action is a swaying posture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ACTIONS = ("walks", "jumps", "sits", "waves", "turns", "kicks", "runs", "bows")


def write_toy(root: Path, *, train: int = 64, val: int = 40) -> Path:
    """Write clips of 40 to 60 frames, captions with tokens, split lists, Mean and Std."""
    (root / "new_joint_vecs").mkdir()
    (root / "texts").mkdir()
    rng = np.random.default_rng(0)
    postures = rng.standard_normal((len(ACTIONS), 263))
    for split, count in (("train", train), ("val", val)):
        names = []
        for i in range(count):
            action, name = i % len(ACTIONS), f"{split}{i:03d}"
            frames = np.arange(int(rng.integers(40, 60)))[:, None]
            sway = np.sin(frames * 0.3 + rng.uniform(0, 6) + np.linspace(0, 3, 263))
            motion = postures[action] + sway + 0.3 * rng.standard_normal(sway.shape)
            np.save(root / "new_joint_vecs" / f"{name}.npy", motion.astype("f4"))
            text = f"someone {ACTIONS[action]}#someone/NOUN {ACTIONS[action]}/VERB#0.0#0.0\n"
            (root / "texts" / f"{name}.txt").write_text(text)
            names.append(name)
        (root / f"{split}.txt").write_text("\n".join(names))
    np.save(root / "Mean.npy", np.zeros(263, "f4"))
    np.save(root / "Std.npy", np.ones(263, "f4"))
    return root
