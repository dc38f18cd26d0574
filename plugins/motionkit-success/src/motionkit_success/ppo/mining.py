"""On-policy mining: the classifier is trained on the policy's own episodes and goes on rewarding it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.runs import Run, TrainedOn
from motionkit.tracking import table_of
from motionkit.training.settings import OptimSettings
from motionkit.training.steps import Kept, ModelState, Parts
from motionkit_success.classification import AtThreshold
from motionkit_success.classifier import ARTIFACT as CLASSIFIER
from motionkit_success.classifier import save_classifier
from motionkit_success.collected import Collected
from motionkit_success.environments.base import Frames, Step
from motionkit_success.episodes import Collector, Episodes, open_episodes
from motionkit_success.evaluation.data import Split
from motionkit_success.evaluation.report import measure_classifier
from motionkit_success.ppo.settings import MineSettings
from motionkit_success.reward_frames import SuccessReward
from motionkit_success.step import ClassifierTraining
from motionkit_success.train import choose
from motionkit_success.train_data import Augmentation, Images, all_logits, data_of, generator_of, run_of
from motionkit_success.train_settings import AugmentSettings, ThresholdSettings

Index = NDArray[np.int64]

MINED = "mined"
_FINAL, _WARMUP = 0.02, 10
_logger = logging.getLogger("motionkit.ppo")


class Joined:
    """Frames of several sets, one set after the other; a `motionkit_success.train_data.FrameSet`."""

    def __init__(self, sets: Sequence[Episodes]) -> None:
        self._sets = tuple(sets)
        self._ends = np.cumsum([len(episodes) for episodes in sets])
        self.labels = np.concatenate([episodes.labels for episodes in sets])

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: Index) -> Mapping[str, NDArray[np.uint8]]:
        """Return frames ``[M, H, W, 3]`` uint8 by camera; `index` ``[M]`` is in any order."""
        owner = np.searchsorted(self._ends, index, side="right")
        frames: dict[str, NDArray[np.uint8]] = {}
        for number, episodes in enumerate(self._sets):
            mine = np.flatnonzero(owner == number)
            start = int(self._ends[number]) - len(episodes)
            for name, values in episodes.read(index[mine] - start).items():
                rows = frames.setdefault(name, np.empty((len(index), *values.shape[1:]), np.uint8))
                rows[mine] = values
        return frames


@dataclass(frozen=True)
class MinedParts:
    """Frames of `Joined` by part, each ascending."""

    train: Index  # learned from
    val: Index  # choose calibration and threshold
    fresh: Index  # those that this round adds, of both


def divide(
    collected: Episodes,  # what the classifier was trained on
    split: Split,  # its parts
    mined: Episodes,  # the policy's own episodes
    *,
    known: int,  # how many of them earlier rounds have seen
    val_share: float,  # share of mined episodes in `MinedParts.val`: every 1 / share-th one, in all rounds alike
) -> MinedParts:
    """Divide the frames of ``Joined([collected, mined])``; test episodes of `collected` are not used."""
    stride = max(2, round(1 / val_share))
    held_out = mined.episode % stride == stride - 1
    start = len(collected)
    places = np.arange(len(mined)) + start
    # A mined episode may equal a test episode.
    test = set(split.test)
    other = np.array([record.content not in test for record in mined.records], np.bool_)[mined.episode]
    return MinedParts(
        np.concatenate([split.frames(collected, split.train), places[~held_out & other]]),
        np.concatenate([split.frames(collected, split.val), places[held_out & other]]),
        places[(mined.episode >= known) & other],
    )


class HardBatches:
    """Batches of which a quarter are successes; the others are drawn by the classifier's probability."""

    def __init__(
        self,
        index: Index,  # [N] frames to draw from
        labels: Tensor,  # [N] their labels
        probabilities: Tensor,  # [N] of success, by the classifier
        *,
        size: int,  # frames of a batch
        floor: float,  # a frame without success is drawn in proportion to ``floor + p``
        name: str,  # fixes the draws, with the number of the step
    ) -> None:
        self._index, self._name = torch.from_numpy(index), name
        positive = labels > 0.5
        many = max(1, size // 4)
        self._draws = ((positive.double(), many), ((floor + probabilities.double()) * ~positive, size - many))

    def __call__(self, step: int) -> Index:
        """Return the frames of a step, ascending, which is how a disk reads them best; some may come twice."""
        generator = generator_of(f"{self._name}/{step}")
        parts = [
            torch.multinomial(weights, count, replacement=True, generator=generator) for weights, count in self._draws
        ]
        frames: Index = np.sort(self._index[torch.cat(parts)].numpy())
        return frames


class Miner:
    """Keeps the policy's episodes and trains the classifier on them between stretches of updates.

    A round measures the classifier on the frames of the stretch, which it was not trained on, trains it on all frames
    so far with negatives drawn by its probability, and chooses calibration and threshold anew on held-out episodes.
    """

    def __init__(
        self,
        rewards: list[Any],  # the rewards of the run
        settings: MineSettings,  # how it mines
        *,
        total: int,  # updates of the run
        seed: int,  # fixes the draws
        device: torch.device,  # where the classifier is
    ) -> None:
        reward = next((candidate for candidate in rewards if isinstance(candidate, SuccessReward)), None)
        if reward is None:
            raise MotionkitError(
                "--mine has no classifier to train.", why="no reward is one.", fix="--reward success-classifier"
            )
        if settings.rounds >= total:
            raise MotionkitError(
                f"--mine {settings.rounds} does not fit into {total} updates.", fix="fewer rounds, or more --num-steps."
            )
        run = run_of(reward.place)
        if run is None:
            raise MotionkitError(
                f"{reward.place} does not say what it was trained on.",
                why="--mine trains the classifier on: what it has learned would be forgotten without its own episodes.",
                fix="--reward.checkpoint RUN, a run of motionkit reward-train; or leave --mine out.",
            )
        self.classifier, self._settings, self._seed, self._device = reward.classifier, settings, seed, device
        self.source, self._split = data_of(run, self.classifier.card.dataset)
        self.due = {total * number // (settings.rounds + 1) for number in range(1, settings.rounds + 1)}
        self._collector: Collector | None = None
        self._kept, self._before = Kept(values={"rounds": []}), self.classifier.card.step

    @property
    def rounds(self) -> list[dict[str, float]]:
        """The rounds so far: step, frames, figures before and after."""
        rounds: list[dict[str, float]] = self._kept.values["rounds"]
        return rounds

    def begin(self, run: Run, environment: Mapping[str, object]) -> Parts:
        """Open the folder of the run that mined episodes go to; returns what a checkpoint holds of it all."""
        self._run = run
        cameras = self.source.episodes.cameras
        self._collector = Collector(run.artifact(MINED), cameras=cameras, environment=environment)
        if run.checkpoint() is None:
            self._collector.clear()
        return {MINED: Collected(self._collector), CLASSIFIER: ModelState(self.classifier), "rounds": self._kept}

    def watch(self, step: Step, frames: Frames, seeds: NDArray[np.int64]) -> None:
        """Keep a step of the policy, with the environment's success."""
        assert self._collector is not None
        self._collector.source = f"on-policy, round {len(self.rounds) + 1}"
        self._collector.add(frames, step.success, step.done, seeds=seeds.tolist())

    def round(self, step: int) -> dict[str, float]:
        """Train the classifier on mined episodes; returns metrics, none if no episode has ended."""
        assert self._collector is not None
        counts = self._collector.counts
        episodes = sum(count["trajectories"] for count in counts.values())
        known = int(self.rounds[-1]["episodes"]) if self.rounds else 0
        if episodes == known:
            _logger.warning("no episode has ended since the last round of mining: it is left out.")
            return {}
        collected, mined = self.source.episodes, open_episodes(self._collector.folder)
        parts = divide(collected, self._split, mined, known=known, val_share=self._settings.val_share)
        joined, augment = Joined([collected, mined]), AugmentSettings()
        seen = Images(
            self.classifier.network, joined, Augmentation(augment.shift, augment.brightness, self._seed), self._device
        )
        self.classifier.network.eval()
        labels = torch.from_numpy(joined.labels)
        probabilities = self.classifier.calibrated(all_logits(seen, np.arange(len(joined))))
        paid = AtThreshold.of(probabilities[parts.fresh], labels[parts.fresh], self.classifier.threshold)
        self._train(seen, labels, probabilities, parts.train, step)
        chosen = choose(
            all_logits(seen, parts.val), labels[parts.val], ThresholdSettings(),
            learning_rate=self._settings.learning_rate,
        )  # fmt: skip
        calibration = chosen.calibration
        self.classifier.update(
            threshold=chosen.threshold, temperature=calibration.temperature, bias=calibration.bias, checks=(),
            heldout={}, step=self._before + self._settings.steps * (len(self.rounds) + 1),
        )  # fmt: skip
        self._save(mined)
        metrics = {
            "mining/frames": float(len(mined)),
            "mining/positives": float(mined.labels.sum()),
            "mining/precision": paid.precision,
            "mining/recall": paid.recall,
            "mining/average_precision": chosen.figures["classifier/average_precision"],
            "mining/threshold": chosen.threshold,
        }
        row = {name.removeprefix("mining/"): value for name, value in metrics.items()}
        self._kept.values = {"rounds": [*self.rounds, {"step": step, "episodes": episodes, **row}]}
        _logger.info(
            "mining round %d: on the policy's own frames precision was %.3f and recall %.3f; threshold %.3f now",
            len(self.rounds), paid.precision, paid.recall, chosen.threshold,
        )  # fmt: skip
        return metrics

    def _train(
        self, seen: Images, labels: torch.Tensor, probabilities: torch.Tensor, index: NDArray[np.int64], step: int
    ) -> None:
        settings = self._settings
        optim = OptimSettings(learning_rate=settings.learning_rate, weight_decay=1e-4, warmup_steps=_WARMUP)
        batches = HardBatches(
            index, labels[index], probabilities[index], size=settings.batch_size, floor=settings.floor,
            name=f"ppo/mine/{self._seed}/{step}",
        )  # fmt: skip
        training = ClassifierTraining(
            self.classifier, labels, lambda number: batches(number - 1), optim=optim, updates=settings.steps,
            final=_FINAL,
        )  # fmt: skip
        for number in range(1, settings.steps + 1):
            # Steps count on over the rounds: each image is changed in another way.
            training.step(seen, number, offset=step * settings.steps)
        self.classifier.network.eval()

    def finish(self) -> dict[str, Any]:
        """Measure the classifier on the test episodes of its own data, write it, and return the run's summary of it."""
        if not self.rounds:
            return {}
        episodes = self.source.episodes
        report = measure_classifier(
            self.classifier, episodes, self._split.frames(episodes, self._split.test), seed=self._seed
        )
        # A checkpoint holds weights and calibration only; the rest of the card is set here.
        step = self._before + self._settings.steps * len(self.rounds)
        self.classifier.update(checks=report.checks, heldout=dict(report.heldout), step=step)
        assert self._collector is not None
        mined = open_episodes(self._collector.folder)
        self._save(mined.chosen(range(int(self.rounds[-1]["episodes"]))))
        return {"mining": {"rounds": self.rounds, "heldout": dict(report.heldout), "verdict": report.verdict}}

    def _save(self, mined: Episodes) -> None:
        """Write the classifier, which was trained on its own episodes and on these."""
        seen = {*self._split.train, *self._split.val, *(record.content for record in mined.records)}
        self.classifier.trained_on = TrainedOn.of(seen - set(self._split.test))
        save_classifier(self._run.artifact(CLASSIFIER), self.classifier)

    def close(self) -> None:
        """Let others write the mined episodes; those that have not ended are forgotten, or are in the checkpoint."""
        if self._collector is not None:
            self._collector.close()

    def table(self) -> dict[str, Any]:
        """Return the rounds as a table for people."""
        rows = [
            [str(number), f"{row['step']:.0f}", f"{row['frames']:,.0f}", f"{row['positives']:,.0f}",
             f"{row['precision']:.3f}", f"{row['recall']:.3f}", f"{row['threshold']:.3f}"]
            for number, row in enumerate(self.rounds, 1)
        ]  # fmt: skip
        columns = ["round", "after update", "frames mined", "successes"]
        columns += ["precision before", "recall before", "threshold"]
        return table_of("Mining: the classifier on the policy's own frames", columns, rows, range(len(columns)))
