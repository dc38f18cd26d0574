"""TMR-SOMA on the true motions of Kimodo's benchmark: whether its features are those of the released weights."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit.contracts.console import Console
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit_policy_kimodo.prompts import read_prompts
from motionkit_policy_kimodo.settings import RetrievalSettings
from motionkit_policy_kimodo.texts import COMMAND, TextTable
from motionkit_policy_kimodo.tmr import benchmark, read_retrieval


class TrueRetrieval:
    """``eval kimodo-retrieval``."""

    name = "kimodo-retrieval"

    def __init__(self, settings: RetrievalSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, cases: str) -> Result:
        """Look for the true motion of each text of a folder among all."""
        if self.settings.embeddings is None:
            raise MotionkitError("no text vectors are named.", fix=f"{COMMAND}, then --embeddings OUT")
        found = [(one.texts[0], one.truth) for one in read_prompts(Path(cases)) if one.truth and len(one.texts) == 1]
        if len(found) < 2:
            raise MotionkitError(
                f"{cases} has {len(found)} cases with a text and its true motion, gt_motion.npz.",
                fix="make them by Kimodo's create_benchmark, of BONES-SEED.",
            )
        retrieval = read_retrieval(self.settings.weights, TextTable(self.settings.embeddings))
        texts = retrieval.texts([text for text, _ in found])
        with self.console.working(len(found)) as step:
            motions = []
            for _, file in found:
                motions.append(retrieval.file(file))
                step(1)
        figures = benchmark(texts, None, torch.stack(motions))
        return Result(
            {"cases": len(found), "folder": cases},
            {f"heldout/{name}": value for name, value in figures.items()},
            closing=[f"{len(found)} cases. Published R@3: 89.1 (content), 93.9 (repetition)."],
        )
