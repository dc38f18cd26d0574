"""An environment as Stable-Baselines3 steps it, with motionkit's rewards and counts of true and predicted success."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from motionkit.contracts.reward import FrameBatch, Reward, RewardScores, StepBatch
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, MotionBatch, joints_to_features
from motionkit.text import Prompt
from motionkit.training.steps import State
from motionkit_success.actor import action_space, observation, observation_space
from motionkit_success.actor_settings import ActorSpec
from motionkit_success.environments.base import Environment, Flags, Floats, Frames, Step, Stored
from motionkit_success.ppo.settings import ScoringSettings
from motionkit_success.reward_frames import SuccessReward
from motionkit_success.true_success import start_seeds

_FIX = "put joints [T, J, 3] in metres, Y up, J = 22 or 21, and fps into the info of an episode's last step."

PREDICTED = "success"
"""Part of an image reward's scores, 0 or 1: whether it sees success."""

_PURPOSE = "train"


def motion_of(info: Mapping[str, Any]) -> MotionBatch:
    """Return the motion in the info of an episode's last step.

    ``joints`` are ``[T, J, 3]`` in metres, Y up: J = 22 as HumanML3D, 21 as KIT; ``fps`` is 20 by default.
    """
    given = info.get("joints")
    if given is None:
        raise MotionkitError("a motion reward is chosen, and the episode tells no joints.", fix=_FIX, code=1)
    joints = np.asarray(given, np.float32)
    body = {22: HUMANML, 21: KIT}.get(joints.shape[1] if joints.ndim == 3 else 0)
    if body is None or joints.shape[-1] != 3 or len(joints) < 2 or not np.isfinite(joints).all():
        raise MotionkitError(f"the joints of an episode are {list(joints.shape)}, or not finite.", fix=_FIX, code=1)
    features = joints_to_features(torch.from_numpy(joints), body, target=body is HUMANML)[None]
    return MotionBatch(features, torch.tensor([features.shape[1]]), skeleton=body, fps=float(info.get("fps", 20.0)))


@dataclass(frozen=True)
class Term:
    """A reward of the sum."""

    reward: Reward
    weight: float
    reads: str  # ``image``, ``step`` or ``motion``


class Scorer:
    """Scores the steps of N copies."""

    def __init__(
        self,
        terms: Sequence[Term],  # the rewards
        settings: ScoringSettings,  # when image rewards pay
        num_envs: int,  # copies N
        # Names of the environment's cameras, of which a reward reads the first; a `SuccessReward` reads all of them.
        cameras: Sequence[str],
        device: torch.device,  # where frames are scored
    ) -> None:
        self._terms, self._settings, self._device = tuple(terms), settings, device
        self._cameras = tuple(cameras)
        self._prompts = [Prompt(("fulfil the task",), (1,))] * num_envs
        # [N, n]: which of the newest steps paid, the newest last.
        self._paid = np.zeros((num_envs, settings.n), np.bool_)
        self._sums: dict[str, list[float]] = {}
        self._totals: list[Floats] = []
        self.needs_frames = any(term.reads == "image" for term in terms)
        self.predicts = self.needs_frames  # whether a reward says that it sees success

    def predict(self, frames: Frames) -> Flags:
        """Return ``[M]``: the first image reward sees success in a frame, of M copies."""
        for term in self._terms:
            if term.reads == "image":
                return self._predicted(self._look(term.reward, frames))
        raise ValueError("no reward reads images")

    def __call__(self, step: Step, frames: Frames) -> tuple[Floats, Flags | None]:
        """Return the reward ``[N]`` of a step, and whether an image reward sees success ``[N]``."""
        total = np.zeros(len(self._prompts), np.float32)
        predicted: Flags | None = None
        for term in self._terms:
            if term.reads == "image":
                scores = self._look(term.reward, frames)
                seen = self._predicted(scores)
                predicted = seen if predicted is None else predicted
                value = self._when(scores, seen, step.done)
            elif term.reads == "step":
                batch = StepBatch(torch.from_numpy(step.reward), torch.from_numpy(step.success))
                value = self._numbers(term.reward.score(batch, self._prompts))
            else:
                value = self._moved(term.reward, step)
            self._sums.setdefault(f"reward/{term.reward.name}/mean", []).append(float(value.mean()))
            total += np.float32(term.weight) * value
        # A copy: stable-baselines3 adds the critic's value to the rewards in place, if an episode is truncated.
        self._totals.append(total.copy())
        return total, predicted

    def take_means(self) -> dict[str, float]:
        """Return figures of the total, and the mean of each reward, since the last call, by metric name."""
        metrics = {name: float(np.mean(values)) for name, values in self._sums.items()}
        if self._totals:
            total = np.stack(self._totals)
            spread = {"mean": total.mean(), "std": total.std(), "min": total.min(), "max": total.max()}
            metrics |= {f"reward/{name}": float(value) for name, value in spread.items()}
        self._sums, self._totals = {}, []
        return metrics

    def state(self) -> NDArray[np.bool_]:
        """Return the steps that k-of-n remembers."""
        return self._paid.copy()

    def load_state(self, state: NDArray[np.bool_]) -> None:
        """Put it back."""
        self._paid[:] = state

    def _look(self, reward: Reward, frames: Frames) -> RewardScores:
        if isinstance(reward, SuccessReward):  # of all cameras
            return reward.score_cameras(
                {name: torch.from_numpy(np.ascontiguousarray(value)).to(self._device) for name, value in frames.items()}
            )
        # [N, H, W, 3] -> [N, 1, H, W, 3]: each frame is a sequence of one.
        first = torch.from_numpy(np.ascontiguousarray(frames[self._cameras[0]]))
        pictures = first[:, None].to(self._device)
        lengths = torch.ones(len(pictures), dtype=torch.int64, device=self._device)
        with torch.no_grad():
            scores = reward.score(FrameBatch(pictures, lengths), self._prompts[: len(pictures)])
        return scores

    def _predicted(self, scores: RewardScores) -> Flags:
        seen = scores.parts.get(PREDICTED)
        flags: Flags = (scores.total if seen is None else seen).cpu().numpy() >= 0.5
        return flags

    def _when(self, scores: RewardScores, seen: Flags, done: Flags) -> Floats:
        value = self._numbers(scores)
        if self._settings.mode == "terminal":
            value = value * done
        elif self._settings.mode == "k-of-n":
            self._paid = np.concatenate([self._paid[:, 1:], seen[:, None]], axis=1)
            enough = self._paid.sum(axis=1) >= self._settings.k
            self._paid[done] = False
            value = value * enough
        return value.astype(np.float32)

    def _moved(self, reward: Reward, step: Step) -> Floats:
        """Score the motions of the episodes that end with this step; others get 0."""
        value = np.zeros(len(self._prompts), np.float32)
        for copy in np.flatnonzero(step.done).tolist():
            motion = motion_of(step.infos[copy])
            scores = reward.score(motion, [Prompt(("fulfil the task",), (int(motion.lengths[0]),))])
            value[copy] = self._numbers(scores)[0]
        return value

    @staticmethod
    def _numbers(scores: RewardScores) -> Floats:
        value: Floats = scores.total.detach().float().cpu().numpy()
        if not np.isfinite(value).all():
            raise MotionkitError("a reward is not finite.", why="PPO cannot learn from it.", code=1)
        return value


def refuse_unreadable(name: str, reads: str, environment: Any) -> None:
    """Refuse a reward that reads images for an environment without a camera."""
    if reads == "image" and not environment.cameras:
        raise MotionkitError(
            f"the reward {name} reads images, and the environment has no camera.",
            fix="--reward env, or an environment with a camera: motionkit plugins list environments",
        )


Watch = Callable[[Step, Frames, NDArray[np.int64]], None]
"""Called after each step, before any reset, with its result, the frames after it and the episodes' seeds."""


class ScoredEnv(VecEnv):
    """Steps, scores and restarts the copies of an environment.

    A reward reads the state after the action, also at the end of an episode: the next episode begins afterwards, and
    the observation of the last state is in the info as ``terminal_observation``.
    """

    def __init__(
        self, environment: Environment, spec: ActorSpec, scorer: Scorer, *, seed: int, watch: Watch | None = None
    ) -> None:
        self._environment, self._spec, self._scorer, self._seed, self._watch = environment, spec, scorer, seed, watch
        super().__init__(environment.num_envs, observation_space(spec), action_space(spec))
        self._draws = spec.kind == "pixels" or scorer.needs_frames or watch is not None
        self.actions: NDArray[Any] = np.zeros(0)  # [N, A] or [N], the newest
        self.episodes = 0  # episodes begun
        self._starts = np.zeros(self.num_envs, np.int64)
        # [N]: success so far in the running episodes, and what an image reward saw.
        self._true = np.zeros(self.num_envs, np.bool_)
        self._predicted = np.zeros(self.num_envs, np.bool_)
        # ``(true, predicted)`` success of each finished episode since `take_finished`
        self.finished: list[tuple[bool, bool]] = []

    def reset(self) -> Any:
        """Begin an episode in every copy."""
        self._begin(np.arange(self.num_envs))
        return self.seen()

    def seen(self) -> NDArray[Any]:
        """Return the present observations."""
        return self._observe(self._frames(self._spec.kind == "pixels"))

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self.actions = actions

    def step_wait(self) -> Any:
        """Step, score, and restart what is over."""
        step = self._environment.step(self.actions)
        frames = self._frames(self._draws)
        rewards, predicted = self._scorer(step, frames)
        if self._watch is not None:
            self._watch(step, frames, self._starts)
        self._true |= step.success
        self._predicted |= False if predicted is None else predicted
        seen, done = self._observe(frames), step.done
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        over = np.flatnonzero(done)
        if len(over):
            for copy in over.tolist():
                cut = bool(step.truncated[copy] and not step.terminated[copy])
                infos[copy] = {"terminal_observation": seen[copy], "TimeLimit.truncated": cut}
                self.finished.append((bool(self._true[copy]), bool(self._predicted[copy])))
            self._begin(over)
            seen = self.seen()
        return seen, rewards, done, infos

    def take_finished(self) -> list[tuple[bool, bool]]:
        """Return the finished episodes since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def _begin(self, copies: NDArray[np.int64]) -> None:
        seeds = start_seeds(_PURPOSE, self._seed, self.episodes, len(copies))
        self._environment.reset(copies, seeds)
        self._starts[copies] = seeds
        self.episodes += len(copies)
        self._true[copies] = self._predicted[copies] = False

    def _frames(self, draw: bool) -> Frames:
        return self._environment.frames() if draw else {}

    def _observe(self, frames: Frames) -> NDArray[Any]:
        return observation(self._spec, self._environment.states(), frames).copy()

    def state(self) -> State:
        """Return the running episodes; see `motionkit.training.steps.Stateful`."""
        arrays: dict[str, NDArray[Any]] = {
            "true": self._true, "predicted": self._predicted, "paid": self._scorer.state(), "seeds": self._starts
        }  # fmt: skip
        if isinstance(self._environment, Stored):
            arrays |= {f"environment.{name}": value for name, value in self._environment.get_state().items()}
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        return State(tensors, {"episodes": self.episodes, "finished": self.finished})

    def load_state(self, state: State) -> None:
        """Put them back; an environment that keeps no state begins new episodes."""
        arrays = {name: value.numpy() for name, value in state.tensors.items()}
        self.episodes = int(state.values["episodes"])
        self.finished = [(bool(true), bool(predicted)) for true, predicted in state.values["finished"]]
        if not isinstance(self._environment, Stored):
            self._begin(np.arange(self.num_envs))
            return
        self._true[:], self._predicted[:], self._starts[:] = arrays["true"], arrays["predicted"], arrays["seeds"]
        self._scorer.load_state(arrays["paid"])
        self._environment.set_state(
            {name.removeprefix("environment."): value for name, value in arrays.items() if "." in name}
        )

    @property
    def resumes(self) -> bool:
        """Whether running episodes go on after a resume."""
        return isinstance(self._environment, Stored)

    def close(self) -> None:
        """The environment is closed by whoever opened it."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute for every copy: there are no single environments."""
        # stable-baselines3 asks by name for attributes that need not be there, such as render_mode.
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not used."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Return nothing: there are no single environments."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every copy."""
        return [False] * self.num_envs
