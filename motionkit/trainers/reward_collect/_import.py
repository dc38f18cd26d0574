"""`motionkit reward-collect --import POS NEG`: the guide's trajectories as a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from motionkit.datasets.episodes import ARTIFACT, Collector, Trajectories
from motionkit.errors import MotionkitError
from motionkit.runs import Run
from motionkit.trainers._collected import Collected, start_anew
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Parts, restore
from motionkit.trainers.base import Figure
from motionkit.trainers.reward_collect._kept import KEPT, kept_of, quota_of, result_of
from motionkit.trainers.reward_collect._settings import RewardCollectSettings

_IDLE = ("env", "policy", "episodes", "actor", "objective", "optim")
_logger = logging.getLogger("motionkit.reward_collect")


class ImportEpisodes:
    """Writes trajectories of the guide as episodes; see `motionkit.trainers.base.Trainer`.

    A step is a file. Nothing acts, so that there is no environment.

    Args:
        settings: All settings; `import_from` is given.
    """

    shape_keys: ClassVar[tuple[str, ...]] = ("import_from", "quota")

    figures: ClassVar[tuple[Figure, ...]] = KEPT

    def __init__(self, settings: RewardCollectSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Look through all files.

        Raises:
            MotionkitError: As `Trajectories`; or a setting was given that has no effect here.
        """
        settings, default = self.settings, RewardCollectSettings()
        idle = [name for name in _IDLE if getattr(settings, name) != getattr(default, name)]
        if settings.run.num_steps != default.run.num_steps:
            idle.append("run.num_steps")
        if idle:
            has, it = ("has", "it") if len(idle) == 1 else ("have", "them")
            raise MotionkitError(
                f"{', '.join(idle)} {has} no effect with --import.",
                why="episodes are read from files: nothing acts.",
                fix=f"leave {it} out.",
            )
        assert settings.import_from is not None
        self.trajectories = Trajectories(*settings.import_from)
        self.inputs = {"import_from": self.trajectories.fingerprint}
        run = settings.run.model_copy(update={"num_steps": len(self.trajectories)})
        self.settings = settings.model_copy(update={"run": run})
        for note in self.trajectories.notes:
            _logger.warning("%s", note)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        cameras = [f"{name} {height} x {width}" for name, (height, width) in self.trajectories.cameras.items()]
        return {
            "files": len(self.trajectories), "cameras": ", ".join(cameras), "notes": list(self.trajectories.notes)
        }  # fmt: skip

    def train(self, run: Run) -> Mapping[str, object]:
        """Import; see `motionkit.trainers.base.Trainer.train`."""
        with Collector(
            run.artifact(ARTIFACT), cameras=self.trajectories.cameras, quota=quota_of(self.settings.quota),
            licence=self.settings.licence,
        ) as collector:  # fmt: skip
            parts: Parts = {"collected": Collected(collector)}
            if (checkpoint := run.checkpoint()) is not None:
                restore(parts, checkpoint)
            else:
                start_anew(collector)

            def step_fn(step: int) -> Mapping[str, float]:
                self.trajectories.add(step - 1, collector)
                return kept_of(collector)

            if not run_steps(run, self.settings, step_fn, parts, done=lambda: collector.full):
                return {}
            counts, left_out = collector.counts, collector.left_out
        return {**result_of(counts, left_out), "notes": list(self.trajectories.notes)}
