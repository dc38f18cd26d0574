"""CPU time of each reward at the released networks' sizes, relative to tmr-cosine: the column of docs/rewards.md.

Run as ``OMP_NUM_THREADS=1 python tests/benchmarks/reward_cost.py``. Weights are random, texts are encoded beforehand
(a run encodes each once), and the rewards take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import torch

from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt, TextFeatures
from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, WordTable, new_evaluator
from motionkit.text_to_motion.rewards.components import CosineOptions as TmrCosineOptions
from motionkit.text_to_motion.rewards.components import DenseOptions as TmrDenseOptions
from motionkit.text_to_motion.rewards.components import MatchingOptions as TmrMatchingOptions
from motionkit.text_to_motion.rewards.components import MovementOptions, PhysicsOptions
from motionkit.text_to_motion.rewards.joint_space import TmrCosine, TmrDense, TmrMatching
from motionkit.text_to_motion.rewards.mdm import CombinedOptions, DenseOptions, MatchingOptions, PrecisionOptions
from motionkit.text_to_motion.rewards.motion_terms import Movement, Physics
from motionkit.text_to_motion.rewards.ranked import MdmCombined, MdmDense, MdmMatching, MdmRPrecision
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr
from tests.made.plain import plain_dataset

SAMPLES, ROUNDS = 32, 5
VERBS = ("walk", "jump", "turn", "wave", "sit", "run", "kick")
TEXTS = [f"a man {one} and {two}" for one in VERBS for two in VERBS]


class Words:
    """A made-up text model with DistilBERT's width."""

    name, fingerprint, width = "made-up", "0", 768

    def encode(self, texts: list[str]) -> TextFeatures:
        """Return eight tokens per text."""
        draws = [torch.Generator().manual_seed(sum(map(ord, text))) for text in texts]
        tokens = torch.stack([torch.randn(8, self.width, generator=draw) for draw in draws])
        return TextFeatures(tokens, torch.ones(len(texts), 8, dtype=torch.bool))


def data() -> SimpleNamespace:
    """Return prompts of K segments to rank among, and clips."""

    def prompts(split: str, *, k_segments: int = 0, seed: int = 0) -> list[Prompt]:
        count = k_segments or 3
        return [Prompt(tuple((TEXTS * 2)[i : i + count]), (40,) * count) for i in range(len(TEXTS))]

    def clips(split: str) -> list[SimpleNamespace]:
        draws = [torch.randn(60, 263, generator=torch.Generator().manual_seed(i)) for i in range(len(TEXTS))]
        return [SimpleNamespace(features=draw, captions=(text,)) for draw, text in zip(draws, TEXTS, strict=True)]

    return plain_dataset(skeleton=HUMANML, fps=20.0, prompts=prompts, clips=clips)


def main() -> None:
    """Print a row per reward: CPU milliseconds per motion, and multiples of tmr-cosine."""
    dataset = data()
    tmr = new_tmr(ActorSizes(263, 256, 1024, 6, 4), torch.zeros(263), torch.ones(263), Words())
    words = WordTable(torch.randn(60, 300), {word: i for i, word in enumerate(["unk", "sos", "eos", *VERBS])}, "made")
    evaluator = new_evaluator(EvaluatorSizes(), torch.zeros(263), torch.ones(263), words)
    rewards = [
        TmrCosine(TmrCosineOptions(), space=tmr),
        TmrMatching(TmrMatchingOptions(similarity="euclidean"), space=tmr),
        TmrDense(TmrDenseOptions(), space=tmr),
        MdmMatching(MatchingOptions(), space=evaluator),
        MdmRPrecision(PrecisionOptions(), dataset=dataset, space=evaluator),
        MdmCombined(CombinedOptions(), dataset=dataset, space=evaluator),
        MdmDense(DenseOptions(), space=evaluator),
        Physics(PhysicsOptions(r_s=0.1, r_j=100.0)),
        Movement(MovementOptions(), dataset=dataset),
    ]
    lengths = torch.linspace(60, 196, SAMPLES).long()
    features = torch.randn(SAMPLES, 196, 263, generator=torch.Generator().manual_seed(0))
    prompts = [Prompt(tuple(TEXTS[i % 40 : i % 40 + 3]), (int(n) // 3,) * 3) for i, n in enumerate(lengths)]
    spent: dict[str, list[tuple[float, float]]] = {reward.name: [] for reward in rewards}
    for _ in range(ROUNDS + 1):
        for reward in rewards:
            batch = MotionBatch(features.clone(), lengths, skeleton=HUMANML, fps=20.0)
            begun = time.process_time()
            with torch.no_grad():
                reward.score(batch, prompts)
            forward = time.process_time() - begun
            live = MotionBatch(features.clone().requires_grad_(), lengths, skeleton=HUMANML, fps=20.0)
            begun = time.process_time()
            total = reward.score(live, prompts).total
            if total.requires_grad:
                total.sum().backward()
            both = time.process_time() - begun if total.requires_grad else float("nan")
            spent[reward.name].append((forward, both))
    best = {name: [min(row[k] for row in rows[1:]) for k in (0, 1)] for name, rows in spent.items()}
    base = best["tmr-cosine"]
    print(f"{'reward':<16} ms/motion  x tmr-cosine  with gradient, x tmr-cosine's score")
    for name, (forward, both) in best.items():
        print(f"{name:<16} {1e3 * forward / SAMPLES:9.2f}  {forward / base[0]:12.2f}  {both / base[0]:10.2f}")


if __name__ == "__main__":
    main()
