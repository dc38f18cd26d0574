"""`motionkit reward-collect`: the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from motionkit.datasets.episodes import ARTIFACT, Collector, ColumnName
from motionkit.environments._open import open_environment
from motionkit.environments.base import Frames, Step
from motionkit.errors import MotionkitError
from motionkit.policies.actor._actor import Actor
from motionkit.policies.actor._settings import ActorSpec, spec_of
from motionkit.policies.actor._store import ARTIFACT as ACTOR
from motionkit.policies.actor._store import load_actor, save_actor
from motionkit.rewards.env import EnvOptions
from motionkit.rewards.env._reward import Env
from motionkit.runs import Run, fingerprint_tensors
from motionkit.trainers._collected import Collected, start_anew
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Parts, restore
from motionkit.trainers.base import Figure
from motionkit.trainers.ppo._backend import PolicyLearner, Sb3Ppo
from motionkit.trainers.ppo._scorer import Scorer, Term
from motionkit.trainers.ppo._settings import PpoSettings
from motionkit.trainers.ppo._vec_env import ScoredEnv
from motionkit.trainers.reward_collect._acting import Acting, actor_actions, random_actions, scripted_actions
from motionkit.trainers.reward_collect._kept import KEPT, kept_of, quota_of, result_of
from motionkit.trainers.reward_collect._settings import POLICIES, RewardCollectSettings


class RewardCollect:
    """Collects episodes; see `motionkit.trainers.base.Trainer`.

    A step is a rollout of every copy of the environment. Episodes are written when they end.

    Args:
        settings: All settings.
    """

    unshared: ClassVar[str] = "episodes are counted in one process, and --workers spreads the environments over cores"
    shape_keys: ClassVar[tuple[str, ...]] = (
        "env", "policy", "quota", "episodes.num_envs", "episodes.steps", "actor", "objective", "optim", "seed",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = KEPT

    def __init__(self, settings: RewardCollectSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open the environment and what acts in it.

        Raises:
            MotionkitError: The environment has no camera, or the policy is missing or does not fit.
        """
        settings = self.settings
        self.device = set_up(settings, small=True)
        episodes = settings.episodes
        self.environment = open_environment(
            settings.env, episodes.num_envs, workers=episodes.workers, backend=episodes.backend
        )
        if not self.environment.cameras:
            raise MotionkitError(
                f"the environment {settings.env.label} has no camera.",
                why="episodes are pictures with the success of each.",
                fix="choose one with a camera: motionkit plugins list environments",
            )
        self.actor = self._open_actor()
        own = [Term(Env(EnvOptions()), 1.0, "step")]
        self.scorer = Scorer(own, PpoSettings().scoring, episodes.num_envs, (), self.device)
        self.env = ScoredEnv(self.environment, self._spec(), self.scorer, seed=settings.seed, watch=self._watch)
        self.learner = self._learner()
        self.inputs: dict[str, str] = {}
        if self.actor is not None and settings.policy not in POLICIES:
            self.inputs["policy"] = fingerprint_tensors(self.actor.tensors())

    def _open_actor(self) -> Actor | None:
        policy = self.settings.policy
        if policy == "ppo":
            return Actor(self._spec(), device=self.device)
        if policy in POLICIES:
            return None
        if not Path(policy).exists():
            raise MotionkitError(
                f"there is no policy {policy!r}.", fix=f"choose {', '.join(POLICIES)}, or a run of motionkit ppo."
            )
        actor = load_actor(Path(policy), device=self.device)
        actor.spec.require_fit(self.environment, policy)
        return actor

    def _spec(self) -> ActorSpec:
        if self.settings.policy not in POLICIES and getattr(self, "actor", None) is not None:
            assert self.actor is not None
            return self.actor.spec
        own = self.settings.actor
        # What does not look needs no frames; an environment may show no state.
        kind = own.kind if self.settings.policy == "ppo" or self.environment.state_size else "pixels"
        return spec_of(kind, own.width, self.environment)

    def _learner(self) -> PolicyLearner | Acting:
        settings = self.settings
        if settings.policy == "ppo":
            assert self.actor is not None
            same = {name: getattr(settings, name) for name in ("episodes", "objective", "optim")}
            return Sb3Ppo(self.actor, self.env, PpoSettings().model_copy(update=same))
        if settings.policy == "random":
            choose = random_actions(self.environment)
        elif settings.policy == "scripted":
            choose = scripted_actions(self.environment, settings.env.label)
        else:
            assert self.actor is not None
            choose = actor_actions(self.actor)
        return Acting(self.env, choose, settings.episodes.steps)

    def _watch(self, step: Step, frames: Frames, seeds: NDArray[np.int64]) -> None:
        space: Any = self.environment.action_space
        done = self.env.actions if isinstance(space, Discrete) else np.clip(self.env.actions, space.low, space.high)
        state = self.environment.states() if self.environment.state_size else None
        self.collector.add(frames, step.success, step.done, seeds=seeds.tolist(), action=done, state=state)

    def _columns(self) -> dict[ColumnName, int]:
        """Return the numbers of an action and of a state of the environment."""
        space: Any = self.environment.action_space
        found: dict[ColumnName, int] = {"action": 1 if isinstance(space, Discrete) else int(np.prod(space.shape))}
        return found | ({"state": self.environment.state_size} if self.environment.state_size else {})

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        settings, quota = self.settings, self.settings.quota
        cameras = [f"{name} {height} x {width}" for name, (height, width) in self.environment.cameras.items()]
        return {
            "environment": f"{settings.env.label}, {settings.episodes.num_envs} copies",
            "cameras": ", ".join(cameras),
            "policy": settings.policy,
            "wanted": f"{quota.positive or 'all'} episodes with a success, {quota.negative or 'all'} without",
            "steps": f"at most {settings.run.num_steps} rollouts of "
            f"{settings.episodes.num_envs * settings.episodes.steps} environment steps",
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Collect; see `motionkit.trainers.base.Trainer.train`."""
        with closing(self.environment), Collector(
            run.artifact(ARTIFACT), cameras=self.environment.cameras, environment=self.environment.spec,
            quota=quota_of(self.settings.quota), licence=self.settings.licence, columns=self._columns(),
            choices=int(getattr(self.environment.action_space, "n", 0)),
        ) as self.collector:  # fmt: skip
            parts: Parts = {**self.learner.parts(), "collected": Collected(self.collector)}
            if (checkpoint := run.checkpoint()) is not None:
                restore(parts, checkpoint)
            else:
                start_anew(self.collector)
            if self.actor is not None and self.settings.policy == "ppo":
                save_actor(run.artifact(ACTOR), self.actor, tensors=False)

            def step_fn(step: int) -> Mapping[str, float]:
                self.collector.source = self.settings.policy
                metrics = {**self.learner.update(), **self.scorer.take_means()}
                finished = self.env.take_finished()
                rate = {"success/true": float(np.mean([true for true, _ in finished]))} if finished else {}
                return {**metrics, **kept_of(self.collector), **rate, "success/episodes": float(self.env.episodes)}

            if not run_steps(run, self.settings, step_fn, parts, done=lambda: self.collector.full):
                return {}
            if self.actor is not None and self.settings.policy == "ppo":
                save_actor(run.artifact(ACTOR), self.actor)
            counts, left_out = self.collector.counts, self.collector.left_out
        return result_of(counts, left_out)
