"""A step as the policy is paid for it: the frame after the action, the last one of its own episode, counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from motionkit.contracts.reward import FrameBatch, RewardScores, StepBatch
from motionkit.errors import MotionkitError
from motionkit.starter import generate
from motionkit.text_to_motion.rewards.components import PhysicsOptions
from motionkit.text_to_motion.rewards.motion_terms import Physics
from motionkit_success.actor_settings import spec_of
from motionkit_success.environments.base import Environment, Step
from motionkit_success.ppo.scored_env import ScoredEnv, Scorer, Term
from motionkit_success.ppo.settings import ScoringSettings
from motionkit_success.ppo.train import SuccessAlarm
from motionkit_success.reward import EnvOptions
from motionkit_success.reward_frames import Env
from tests.made.plain import plain

CPU = torch.device("cpu")
WALK = {"joints": generate("walk", frames=31).joints, "fps": 20.0}


@plain(Environment)
class Counter:
    """Copies that count: the state is (episode, steps taken), the picture shows both; success at the third step."""

    def __init__(self, num_envs: int = 2, length: int = 4) -> None:
        self.num_envs, self.max_steps = num_envs, length
        self.spec: Mapping[str, object] = {"name": "counter"}
        self.cameras = {"front": (8, 8)}
        self.state_size = 2
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self.episode = np.zeros(num_envs, np.int64)
        self.taken = np.zeros(num_envs, np.int64)
        self.seeds: list[int] = []

    def reset(self, copies: np.ndarray, seeds: np.ndarray) -> None:
        self.episode[copies] += 1
        self.taken[copies] = 0
        self.seeds += seeds.tolist()

    def states(self) -> np.ndarray:
        return np.stack([self.episode, self.taken], axis=1).astype(np.float32)

    def frames(self) -> dict[str, np.ndarray]:
        shown = np.zeros((self.num_envs, 8, 8, 3), np.uint8)
        shown[..., 0], shown[..., 1] = self.episode[:, None, None], self.taken[:, None, None]
        return {"front": shown}

    def step(self, actions: np.ndarray) -> Step:
        self.taken += 1
        over = self.taken >= self.max_steps
        infos = [WALK if end else {} for end in over]
        return Step(self.taken.astype(np.float32), self.taken == 3, np.zeros_like(over), over, infos)

    def close(self) -> None: ...


class Looks:
    """An image reward that pays what the green channel says, and keeps what it saw."""

    name = "looks"

    def __init__(self, from_: int = 3) -> None:
        self.seen: list[torch.Tensor] = []
        self._from = from_

    def score(self, samples: FrameBatch, prompts: Sequence[Any]) -> RewardScores:
        assert samples.lengths.tolist() == [1] * len(samples)
        pixel = samples.frames[:, -1, 0, 0].float()
        self.seen.append(pixel)
        return RewardScores(total=pixel[:, 1], parts={"success": (pixel[:, 1] >= self._from).float()})


def scored(reward: Any, environment: Counter, *, reads: str = "image", watch: Any = None, **how: Any) -> ScoredEnv:
    settings = ScoringSettings.model_validate(how)
    scorer = Scorer([Term(reward, 1.0, reads)], settings, environment.num_envs, ("front",), CPU)
    return ScoredEnv(environment, spec_of("mlp", 8, environment), scorer, seed=0, watch=watch)


def steps(env: ScoredEnv, count: int) -> list[tuple[Any, ...]]:
    env.reset()
    return [tuple(env.step(np.zeros((env.num_envs, 1), np.float32))) for _ in range(count)]


def test_the_reward_looks_at_the_state_after_the_action() -> None:
    """The code of the guide's authors paid for the frame before it."""
    found = steps(scored(Looks(), Counter()), 3)
    assert [rewards.tolist() for _, rewards, *_ in found] == [[1, 1], [2, 2], [3, 3]]


def test_the_last_frame_is_that_of_its_own_episode() -> None:
    """After an automatic reset, the code of the guide's authors paid for the first frame of the next episode."""
    watched: list[tuple[list[int], list[int]]] = []

    def watch(step: Step, frames: Mapping[str, np.ndarray], seeds: np.ndarray) -> None:
        pixel = frames["front"][:, 0, 0]
        watched.append((pixel[:, 0].tolist(), pixel[:, 1].tolist()))

    looks = Looks()
    found = steps(scored(looks, Counter(), watch=watch), 5)
    seen, rewards, done, infos = found[3]
    assert done.all()
    assert rewards.tolist() == [4, 4]
    assert watched[3] == ([1, 1], [4, 4])
    assert [info["terminal_observation"].tolist() for info in infos] == [[1, 4], [1, 4]]
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert seen.tolist() == [[2, 0], [2, 0]]
    assert watched[4] == ([2, 2], [1, 1])


def test_true_and_predicted_success_are_counted_by_episode() -> None:
    env = scored(Looks(from_=5), Counter(length=6))
    steps(env, 6)
    assert env.take_finished() == [(True, True)] * 2
    assert env.take_finished() == []
    env = scored(Looks(from_=5), Counter(length=4))
    steps(env, 8)
    assert env.take_finished() == [(True, False)] * 4
    env = scored(Looks(from_=1), Counter(length=2))
    steps(env, 2)
    assert env.take_finished() == [(False, True)] * 2


def test_starts_differ_from_episode_to_episode() -> None:
    environment = Counter(num_envs=3, length=2)
    steps(scored(Looks(), environment), 7)
    assert len(set(environment.seeds)) == len(environment.seeds) == 12


def test_terminal_pays_for_the_last_frame_alone() -> None:
    found = steps(scored(Looks(), Counter(length=3), mode="terminal"), 6)
    assert [rewards.tolist() for _, rewards, *_ in found] == [[0, 0], [0, 0], [3, 3]] * 2


def test_k_of_n_pays_once_enough_of_the_newest_steps_did() -> None:
    found = steps(scored(Looks(from_=2), Counter(length=4), mode="k-of-n", k=2, n=3), 8)
    # Steps 2, 3 and 4 of each episode are seen as success; nothing is carried into the next one.
    assert [rewards.tolist()[0] for _, rewards, *_ in found] == [0, 0, 3, 4] * 2


def test_rewards_add_up_with_their_weights() -> None:
    environment = Counter()
    terms = [Term(Looks(), 0.5, "image"), Term(Env(EnvOptions()), 2.0, "step")]
    scorer = Scorer(terms, ScoringSettings(), 2, ("front",), CPU)
    environment.reset(np.arange(2), np.arange(2))
    step = environment.step(np.zeros((2, 1)))
    total, predicted = scorer(step, environment.frames())
    assert total.tolist() == [2.5, 2.5]
    assert predicted is not None
    assert predicted.tolist() == [False, False]
    means = scorer.take_means()
    assert means["reward/looks/mean"] == 1.0
    assert means["reward/env/mean"] == 1.0
    assert (means["reward/mean"], means["reward/min"], means["reward/std"]) == (2.5, 2.5, 0.0)
    assert scorer.take_means() == {}


def test_a_motion_reward_scores_the_episode_at_its_end() -> None:
    physics = Physics(PhysicsOptions(r_s=0.1, r_j=100.0))
    found = steps(scored(physics, Counter(length=4), reads="motion"), 4)
    paid = np.stack([rewards for _, rewards, *_ in found])
    assert (paid[:3] == 0).all()
    assert (paid[3] > 0).all()


def test_an_episode_without_joints_says_so() -> None:
    environment = Counter(length=1)
    physics = Physics(PhysicsOptions(r_s=0.1, r_j=100.0))
    scorer = Scorer([Term(physics, 1.0, "motion")], ScoringSettings(), 2, ("front",), CPU)
    step = Step(np.zeros(2, np.float32), np.zeros(2, bool), np.ones(2, bool), np.zeros(2, bool), ({}, {}))
    with pytest.raises(MotionkitError, match="tells no joints"):
        scorer(step, environment.frames())


def test_a_reward_that_is_not_finite_ends_the_run() -> None:
    class Broken:
        name = "broken"

        def score(self, samples: StepBatch, prompts: Sequence[Any]) -> RewardScores:
            return RewardScores(total=torch.full((2,), float("nan")))

    environment = Counter()
    scorer = Scorer([Term(Broken(), 1.0, "step")], ScoringSettings(), 2, ("front",), CPU)
    with pytest.raises(MotionkitError, match="not finite") as said:
        scorer(environment.step(np.zeros((2, 1))), environment.frames())
    assert said.value.code == 1


def test_it_fires_once_and_keeps_when() -> None:
    alarm = SuccessAlarm(0.2, 100)
    alarm.add([(False, True)] * 10)
    assert not alarm.check(1)  # too few episodes to tell
    alarm.add([(True, True)] * 90)
    assert not alarm.check(2)
    alarm.add([(False, True)] * 30)
    assert alarm.check(3)
    assert alarm.check(4)
    assert alarm.fired_at == 3
    assert alarm.at == (0.7, 1.0)


@pytest.mark.parametrize(
    ("seen", "missed", "false", "fires", "why"),
    [
        (0, 50, 0, True, ""),
        (0, 22, 0, True, "sees fewer than half"),
        (18, 15, 40, True, "takes for successes"),
        (0, 3, 3, False, ""),  # too few to tell
        (10, 15, 3, False, ""),  # 10 of 25 seen
    ],
)
def test_what_fires_and_what_does_not(seen: int, missed: int, false: int, fires: bool, why: str) -> None:
    alarm = SuccessAlarm(0.2, 200)
    told = [(True, True)] * seen + [(True, False)] * missed + [(False, True)] * false
    alarm.add(told + [(False, False)] * (200 - len(told)))
    assert alarm.check(1) is fires
    assert why in alarm.why


def test_old_episodes_are_forgotten() -> None:
    alarm = SuccessAlarm(0.2, 50)
    alarm.add([(False, True)] * 50)
    alarm.add([(True, True)] * 50)
    assert alarm.rates == (1.0, 1.0)
    assert not alarm.check(1)


def test_it_goes_on_after_a_resume() -> None:
    alarm = SuccessAlarm(0.2, 40)
    alarm.add([(False, True)] * 40)
    alarm.check(7)
    again = SuccessAlarm(0.2, 40)
    again.load_state(alarm.state())
    assert (again.fired_at, again.at, again.rates) == (7, (0.0, 1.0), (0.0, 1.0))
    again.add([(True, True)] * 10)
    assert again.rates == (0.25, 1.0)
