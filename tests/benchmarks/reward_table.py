"""What ruins a learned reward, and whether it is noticed; ``python tests/benchmarks/reward_table.py --help``.

Collects, trains a classifier and trains a policy on it, once as motionkit does it and once with each fault of the code
behind the reward-model guide, on `reach` with the gripper that moves freely. The faults are emulated here: the
commands have no option for them. Five CPU-minutes a seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.config import resolve
from motionkit.training.execute import run_trainer
from motionkit_success.collect import RewardCollect
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.environments.arm import open_reach
from motionkit_success.environments.base import Frames, Step
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer
from motionkit_success.train import RewardTrain
from motionkit_success.train_settings import RewardModelSettings, RewardTrainSettings
from motionkit_success.true_success import start_seeds


class NextEpisodeCollect(RewardCollect):
    """Keeps what an environment shows after its automatic reset: the last frame of an episode is of the next one."""

    def prepare(self) -> None:
        super().prepare()
        options = ReachSettings(kind="point", terminate_on_success=True)
        self._spare = open_reach(options, num_envs=self.environment.num_envs)

    def _watch(self, step: Step, frames: Frames, seeds: NDArray[np.int64]) -> None:
        over = np.flatnonzero(step.done)
        # The very starts that are about to be given to these copies.
        self._spare.reset(over, start_seeds("train", self.settings.seed, self.env.episodes, len(over)))
        late = {name: values.copy() for name, values in frames.items()}
        for name, values in self._spare.frames().items():
            late[name][over] = values[over]
        super()._watch(step, late, seeds)


@contextmanager
def frozen_at_random() -> Iterator[None]:
    """Freeze the encoder though there is no pretrained file, as ``freeze_encoder: true`` without a path did."""
    kept = RewardModelSettings.frozen
    RewardModelSettings.frozen = property(lambda self: True)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        RewardModelSettings.frozen = kept  # type: ignore[method-assign]


POINT = "env.kind=point"
ENDS = ("env.terminate_on_success=true",)
ROWS: Mapping[str, tuple[type[RewardCollect], Sequence[str], bool]] = {
    "good setup": (RewardCollect, (), False),
    "random frozen ResNet10": (RewardCollect, (), True),
    "frames after the reset": (NextEpisodeCollect, ENDS, False),
    "ends at success": (RewardCollect, ENDS, False),
}
"""Collector, its settings, and whether the encoder is frozen at random, by row."""


def one(row: str, seed: int, out: Path) -> dict[str, Any]:
    """Run the three stages of a row, or read what an earlier run of it found."""
    folder = out / f"{row.replace(' ', '-')}-{seed}"
    kept = folder / "found.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    collector, sets, frozen = ROWS[row]
    common = (f"seed={seed}", "threads=1", "device=cpu")
    started = time.process_time()
    own = out / f"collected-{collector.__name__}-{'ends' if sets else 'goes-on'}-{seed}"
    if not (own / "found.json").is_file():
        found = stage("reward-collect", collector, RewardCollectSettings, own, *common, POINT, *sets)
        (own / "found.json").write_text(json.dumps(found))
    collected = json.loads((own / "found.json").read_text())
    model = ("model.architecture=resnet10",) if frozen else ()
    data = (f"data.path={own}", *model)
    if frozen:
        with frozen_at_random():
            trained = stage("reward-train", RewardTrain, RewardTrainSettings, folder / "train", *common, *data)
    else:
        trained = stage("reward-train", RewardTrain, RewardTrainSettings, folder / "train", *common, *data)
    reward = (f"reward.success-classifier.checkpoint={folder / 'train'}",)
    policy = stage("ppo", PpoTrainer, PpoSettings, folder / "ppo", *common, POINT, *reward)
    document = {
        "collected": {name: collected[name] for name in ("positive", "negative", "labels")},
        "heldout": trained["heldout"], "checks": trained["checks"],
        "success": policy["success"], "predicted": policy["predicted_success"], "alarm": policy["alarm"],
        "training": last_rates(folder / "ppo"), "cpu_seconds": time.process_time() - started,
    }  # fmt: skip
    kept.write_text(json.dumps(document, indent=1))
    return document


def stage(command: str, make: Callable[[Any], Any], model: type[Any], out: Path, *sets: str) -> dict[str, Any]:
    """Run one command as the command line does and return its document."""
    resolved = resolve(model, sets=(*sets, f"run.out={out}", "run.overwrite=true"))
    trainer = make(resolved.settings)
    trainer.prepare()
    document = dict(run_trainer(command, trainer, resolved).document)
    if document["status"] != "done":
        sys.exit(f"{command} was stopped")
    return document


def last_rates(run: Path) -> dict[str, float]:
    """Return true and predicted success of the newest episodes at the end of training."""
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return {name: float(last[f"success/{name}"]) for name in ("true", "predicted")}


COLUMNS = (
    "setup", "seed", "label-1 frames", "AUROC", "precision / recall", "failed checks", "true success",
    "predicted", "at the end of training: true / predicted", "alarm",
)  # fmt: skip


def as_row(row: str, seed: int, found: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row."""
    heldout, alarm, training = found["heldout"], found["alarm"], found["training"]
    failed = ", ".join(check["name"] for check in found["checks"] if check["status"] == "fail")
    return [
        row, str(seed), f"{found['collected']['labels']['1']:,}", f"{heldout['auroc']:.3f}",
        f"{heldout['precision']:.2f} / {heldout['recall']:.2f}", failed or "none",
        f"{found['success']['before']:.2f} -> {found['success']['after']:.2f}", f"{found['predicted']['after']:.2f}",
        f"{training['true']:.2f} / {training['predicted']:.2f}",
        f"step {alarm['step']}: {alarm['true']:.2f} / {alarm['predicted']:.2f}" if alarm["fired"] else "silent",
    ]  # fmt: skip


def missed(row: str, found: Mapping[str, Any]) -> list[str]:
    """Return what is not as it should be.

    A faulty setup is marked before stage 3 and by the alarm, the good one by neither. To end at success is no fault: it
    leaves few frames of success, and may do or not; where it does not, something must say so.
    """
    failed = any(check["status"] == "fail" for check in found["checks"])
    fired, learned = bool(found["alarm"]["fired"]), found["success"]["after"] >= 0.9
    if row == "ends at success":
        return [] if failed or fired or learned else ["the policy does not learn, and nothing says so"]
    if row == "good setup":
        said = (("a check fails", failed), ("the alarm fires", fired), ("the policy does not learn", not learned))
    else:
        said = (("no check fails", not failed), ("the alarm is silent", not fired), ("the policy learns", learned))
    return [words for words, wrong in said if wrong]


def main() -> int:
    """Run what is asked for and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/reward-table"), help="What is there is not run again.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rows", nargs="+", choices=[*ROWS], default=[*ROWS])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lines, wrong = [], []
    for seed in chosen.seeds:
        for row in chosen.rows:
            print(f"{row}, seed {seed}", file=sys.stderr)
            found = one(row, seed, chosen.out)
            lines.append(as_row(row, seed, found))
            wrong += [f"{row}, seed {seed}: {said}" for said in missed(row, found)]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for cells in lines:
        print("| " + " | ".join(cells) + " |")
    for line in wrong:
        print(f"not as it should be: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
