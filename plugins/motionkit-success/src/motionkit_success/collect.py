"""`motionkit reward-collect`: the trainers.

`RewardCollect` acts in an environment and keeps episodes up to a quota; `ImportEpisodes` keeps those of the guide's
trajectories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.runs import Run, fingerprint_tensors
from motionkit.tracking import table_of
from motionkit.training.base import Figure
from motionkit.training.device import describe_device, set_up
from motionkit.training.steps import Parts, State, restore, run_steps
from motionkit_success.actor import ARTIFACT as ACTOR
from motionkit_success.actor import Actor, load_actor, require_same_state, save_actor
from motionkit_success.actor_settings import ActorSpec, spec_of
from motionkit_success.collect_settings import POLICIES, QuotaSettings, RewardCollectSettings
from motionkit_success.collected import Collected
from motionkit_success.environments.base import Environment, Frames, Scripted, Step
from motionkit_success.environments.observed import observation_notes, observation_of
from motionkit_success.environments.open import open_environment
from motionkit_success.episodes import ARTIFACT, Collector, ColumnName, Quota, Trajectories
from motionkit_success.ppo.backend import Sb3Ppo
from motionkit_success.ppo.scored_env import ScoredEnv, Scorer, Term
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.reward import EnvOptions
from motionkit_success.reward_frames import Env

Choose = Callable[[NDArray[Any]], NDArray[Any]]
"""``choose(observed) -> actions``."""

KEPT = (
    Figure("with success", ("episodes/positive",), count=True),
    Figure("without", ("episodes/negative",), count=True),
)
"""What the progress line of a run that collects shows."""

_MISSING = {
    "positive": "a classifier cannot be trained on them alone.",
    "negative": "a classifier of these alone has not seen what failure looks like.",
}
"""Reason why a class without episodes is a problem."""

_logger = logging.getLogger("motionkit.reward_collect")

_IDLE = ("env", "policy", "episodes", "actor", "objective", "optim")


class Acting:
    """Steps an environment with a fixed policy."""

    def __init__(self, env: ScoredEnv, choose: Choose, steps: int) -> None:
        self._env, self._choose, self._steps = env, choose, steps
        self._seen: NDArray[Any] | None = None
        self._taken = 0

    def update(self) -> dict[str, float]:
        """Step every copy so many times."""
        seen: Any = self._env.reset() if self._seen is None else self._seen
        for _ in range(self._steps):
            seen, *_ = self._env.step(self._choose(seen))
        self._seen = seen
        self._taken += self._steps * self._env.num_envs
        return {"ppo/environment_steps": float(self._taken)}

    def parts(self) -> Parts:
        """Return what a checkpoint holds."""
        return {"episodes": self._env, "acting": self}

    def state(self) -> State:
        """Return the steps taken."""
        return State(values={"taken": self._taken})

    def load_state(self, state: State) -> None:
        """Put them back; if episodes go on, so do the observations."""
        self._taken = int(state.values["taken"])
        if self._taken and self._env.resumes:
            self._seen = self._env.seen()


def random_actions(environment: Environment) -> Choose:
    """Return a policy that draws actions evenly from their space, with numpy's global generator."""
    space: Any = environment.action_space
    count = environment.num_envs
    if isinstance(space, Discrete):
        return lambda _: np.random.randint(int(space.n), size=count)
    low, high = (np.clip(side, -1e3, 1e3) for side in (space.low, space.high))
    return lambda _: np.random.uniform(low, high, (count, *space.shape)).astype(np.float32)


def scripted_actions(environment: Environment, name: str) -> Choose:
    """Return the environment's scripted policy."""
    if not isinstance(environment, Scripted):
        raise MotionkitError(
            f"the environment {name} has no scripted policy.", fix="--policy ppo, --policy random or --policy RUN"
        )
    return lambda _: environment.scripted()


def quota_of(settings: QuotaSettings) -> Quota:
    """Return the quota of settings, in which 0 is all."""
    limits = settings.positive, settings.negative, settings.positive_frames, settings.negative_frames
    return Quota(*(limit or None for limit in limits))


def kept_of(collector: Collector) -> dict[str, float]:
    """Return the number of kept episodes of each class, by metric name."""
    return {f"episodes/{name}": float(counts["trajectories"]) for name, counts in collector.counts.items()}


def result_of(counts: Mapping[str, Mapping[str, int]], left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return the summary of a run that collected: counts of each class, with a table and a sentence."""
    rows = [
        [name, *(str(count[key]) for key in ("trajectories", "frames", "success_frames")), str(left_out[name])]
        for name, count in counts.items()
    ]
    missing = [name for name, count in counts.items() if not count["trajectories"]]
    positive, negative = (counts[name]["trajectories"] for name in ("positive", "negative"))
    sentence = f"{positive} episodes with a success and {negative} without."
    if missing:
        sentence += f" There is no {missing[0]} one: {_MISSING[missing[0]]}"
        _logger.warning("%s", sentence)
    else:
        _logger.info("%s", sentence)
    table = table_of("Episodes", ["", "kept", "frames", "with success", "over the quota"], rows)
    labels = {"1": sum(count["success_frames"] for count in counts.values())}
    labels["0"] = sum(count["frames"] for count in counts.values()) - labels["1"]
    return {
        "positive": dict(counts["positive"]), "negative": dict(counts["negative"]), "labels": labels,
        "left_out": dict(left_out), "table": table, "verdict": sentence,
    }  # fmt: skip


class ImportEpisodes:
    """Writes trajectories of the guide as episodes; see `motionkit.training.base.Trainer`.

    A step is a file. Nothing acts, so that there is no environment.
    """

    shape_keys: ClassVar[tuple[str, ...]] = ("import_from", "quota")

    figures: ClassVar[tuple[Figure, ...]] = KEPT

    def __init__(self, settings: RewardCollectSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Read all files once."""
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
        """Import; see `motionkit.training.base.Trainer.train`."""
        with Collector(
            run.artifact(ARTIFACT), cameras=self.trajectories.cameras, quota=quota_of(self.settings.quota),
            licence=self.settings.licence,
        ) as collector:  # fmt: skip
            parts: Parts = {"collected": Collected(collector)}
            if (checkpoint := run.checkpoint()) is not None:
                restore(parts, checkpoint)
            else:
                collector.clear()  # of an attempt that died before its first checkpoint

            def step_fn(step: int) -> Mapping[str, float]:
                self.trajectories.add(step - 1, collector)
                return kept_of(collector)

            if not run_steps(run, self.settings, step_fn, parts, done=lambda: collector.full):
                return {}
            counts, left_out = collector.counts, collector.left_out
        return {**result_of(counts, left_out), "notes": list(self.trajectories.notes)}


class RewardCollect:
    """Collects episodes; see `motionkit.training.base.Trainer`.

    A step is a rollout of every copy of the environment. Episodes are written when they end.
    """

    unshared: ClassVar[str] = "episodes are counted in one process, and --workers spreads the environments over cores"
    shape_keys: ClassVar[tuple[str, ...]] = (
        "env", "policy", "quota", "episodes.num_envs", "episodes.steps", "actor", "objective", "optim", "seed",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = KEPT

    def __init__(self, settings: RewardCollectSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open the environment and the policy."""
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
        require_same_state(settings.run.resume, self.environment)
        self.notes = observation_notes(self.environment)
        self.actor = self._open_actor()
        terms = [Term(Env(EnvOptions()), 1.0, "step")]
        self.scorer = Scorer(terms, PpoSettings().scoring, episodes.num_envs, (), self.device)
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
        if self.settings.policy not in POLICIES and self.actor is not None:
            return self.actor.spec
        actor = self.settings.actor
        # Policies that observe nothing get the state, which costs no frames; an environment may have none.
        kind = actor.kind if self.settings.policy == "ppo" or self.environment.state_size else "pixels"
        return spec_of(kind, actor.width, self.environment)

    def _learner(self) -> Sb3Ppo | Acting:
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
            choose = self.actor.act  # torch's global generator draws
        return Acting(self.env, choose, settings.episodes.steps)

    def _watch(self, step: Step, frames: Frames, seeds: NDArray[np.int64]) -> None:
        space: Any = self.environment.action_space
        done = self.env.actions if isinstance(space, Discrete) else np.clip(self.env.actions, space.low, space.high)
        state = self.environment.states() if self.environment.state_size else None
        self.collector.add(frames, step.success, step.done, seeds=seeds.tolist(), action=done, state=state)

    def _columns(self) -> dict[ColumnName, int]:
        """Return the widths of the environment's actions and states."""
        space: Any = self.environment.action_space
        columns: dict[ColumnName, int] = {"action": 1 if isinstance(space, Discrete) else int(np.prod(space.shape))}
        return columns | ({"state": self.environment.state_size} if self.environment.state_size else {})

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
            "notes": list(self.notes),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Collect; see `motionkit.training.base.Trainer.train`."""
        for note in self.notes:
            _logger.info("%s", note)
        if shown := observation_of(self.environment):
            run.annotate(observation=shown)
        with closing(self.environment), Collector(
            run.artifact(ARTIFACT), cameras=self.environment.cameras, environment=self.environment.spec,
            quota=quota_of(self.settings.quota), licence=self.settings.licence, columns=self._columns(),
            choices=int(self.environment.action_space.n) if isinstance(self.environment.action_space, Discrete) else 0,
            state_parts=self.environment.state_parts or None,
        ) as self.collector:  # fmt: skip
            parts: Parts = {**self.learner.parts(), "collected": Collected(self.collector)}
            if (checkpoint := run.checkpoint()) is not None:
                restore(parts, checkpoint)
            else:
                self.collector.clear()  # of an attempt that died before its first checkpoint
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


def open_trainer(settings: RewardCollectSettings) -> RewardCollect | ImportEpisodes:
    """Return the trainer that collects episodes, or the one that imports them."""
    return RewardCollect(settings) if settings.import_from is None else ImportEpisodes(settings)
