"""CPU-seconds of ``motionkit ppo`` next to those of plain stable-baselines3 on the same task.

Run as ``OMP_NUM_THREADS=1 python tests/benchmarks/ppo_cost.py``, about two CPU-minutes. Rows take turns, each in a
process of its own: stable-baselines3 on `reach` through the least vectorised environment that it takes; ``ppo --reward
env``; and ``ppo`` on a trained classifier, whose pictures plain stable-baselines3 neither draws nor looks at. Copies,
steps, batches, passes, rates, network and threads are the same, and so are the measurements: deterministic episodes
and episodes with drawn actions before and after, and the watched ones on the way. By default all is a fifth of the
command's own run of `reach`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COPIES, STEPS, EPOCHS, BATCH, WIDTH, EVERY, WATCHED = 64, 32, 8, 256, 64, 4, 64  # those of `ppo` on `reach`
PARTS = ("start", "updates", "measuring", "rest")  # of a row; start is imports and what is built before the first step
ROWS = ("stable-baselines3", "--reward env", "success-classifier")

Spent = dict[str, float]


def plain(updates: int, episodes: int, out: Path) -> Spent:
    """Train with stable-baselines3 alone; return CPU-seconds by part."""
    import numpy as np
    import torch
    from gymnasium.spaces import Box
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv

    from motionkit_success.environments.arm import open_reach
    from motionkit_success.environments.tasks import ReachSettings

    class Plain(VecEnv):
        """The task, stepped and begun again."""

        def __init__(self, copies: int, first: int) -> None:
            self._task, self._next, self._actions = open_reach(ReachSettings(), num_envs=copies), first, None
            space = Box(-np.inf, np.inf, (self._task.state_size,), np.float32)
            super().__init__(copies, space, self._task.action_space)
            self._succeeded = np.zeros(copies, np.bool_)

        def _begin(self, copies: Any) -> Any:
            self._task.reset(copies, np.arange(self._next, self._next + len(copies)))
            self._next += len(copies)
            self._succeeded[copies] = False
            return self._task.states()

        def reset(self) -> Any:
            return self._begin(np.arange(self.num_envs))

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            step, seen = self._task.step(self._actions), self._task.states()
            self._succeeded |= step.success
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            over = np.flatnonzero(step.done)
            for copy in over.tolist():
                infos[copy] = {
                    "terminal_observation": seen[copy], "TimeLimit.truncated": bool(step.truncated[copy]),
                    "is_success": bool(self._succeeded[copy]),
                }  # fmt: skip
            return self._begin(over) if len(over) else seen, step.reward, step.done, infos

        def close(self) -> None: ...

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * self.num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
            return [None] * self.num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * self.num_envs

    torch.set_num_threads(1)
    env, watched, others = Plain(COPIES, 0), Plain(min(COPIES, WATCHED), 10**6), Plain(min(COPIES, episodes), 2 * 10**6)
    model = PPO(
        "MlpPolicy", env, learning_rate=1e-3, n_steps=STEPS, batch_size=BATCH, n_epochs=EPOCHS, gamma=0.95,
        gae_lambda=0.95, policy_kwargs={"net_arch": [WIDTH, WIDTH]}, device="cpu", seed=0,
    )  # fmt: skip
    measured = Clock()
    watch = EvalCallback(watched, n_eval_episodes=WATCHED, eval_freq=EVERY * STEPS, verbose=0, warn=False)
    watch._on_step = measured.timed(watch._on_step)  # it measures in few of its calls
    evaluate = measured.timed(evaluate_policy)

    def measure() -> None:
        for deterministic in (True, False):
            evaluate(model, others, episodes, deterministic=deterministic, warn=False)

    start = time.process_time()
    measure()
    model.learn(updates * COPIES * STEPS, callback=watch)
    measure()
    trained = time.process_time()
    model.save(out / "policy.zip")
    return {"start": start, "updates": trained - start - measured.spent, "measuring": measured.spent}


class Clock:
    """Adds up the CPU-seconds of functions; those of one inside another count once."""

    def __init__(self) -> None:
        self.spent, self._inside = 0.0, False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time taken."""

        def run(*args: Any, **options: Any) -> Any:
            if self._inside:
                return function(*args, **options)
            self._inside, begun = True, time.process_time()
            try:
                return function(*args, **options)
            finally:
                self._inside, self.spent = False, self.spent + time.process_time() - begun

        return run


def ours(reward: str, updates: int, episodes: int, out: Path) -> Spent:
    """Run ``motionkit ppo`` in this process; return CPU-seconds by part."""
    from motionkit.cli import main as command
    from motionkit_success.ppo.backend import Sb3Ppo
    from motionkit_success.ppo.train import PpoTrainer

    updated, measured, begun = Clock(), Clock(), []
    Sb3Ppo.update = updated.timed(Sb3Ppo.update)
    PpoTrainer._held_out = measured.timed(PpoTrainer._held_out)
    train = PpoTrainer.train

    def begin(self: PpoTrainer, run: Any) -> Any:
        begun.append(time.process_time())
        return train(self, run)

    PpoTrainer.train = begin
    sys.argv = [
        "motionkit", "ppo", "--threads", "1", "--device", "cpu", "--num-steps", str(updates), "--out", str(out / "run"),
        "--set", f"heldout.episodes={episodes}", *reward.split(),
    ]  # fmt: skip
    try:
        command()
    except SystemExit as end:
        if end.code:
            raise
    return {"start": begun[0], "updates": updated.spent, "measuring": measured.spent}


def classifier(folder: Path) -> Path:
    """Collect episodes and train a classifier of the default size; return its run."""
    for words in (
        "reward-collect --num-steps 8 --out collected",
        "reward-train --data collected --num-steps 200 --out classifier",
    ):
        line = [sys.executable, "-m", "motionkit", *words.split(), "--threads", "1", "--device", "cpu"]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{words}: {done.stderr}")
    return folder / "classifier"


def row(name: str, given: argparse.Namespace, checkpoint: Path) -> Spent:
    """Run a row in a process of its own; return CPU-seconds by part."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, str(Path(__file__).resolve()), "--updates", str(given.updates)]
        line += ["--episodes", str(given.episodes), "--one", name, "--checkpoint", str(checkpoint), "--into", folder]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        spent: Spent = json.loads((Path(folder) / "spent.json").read_text())
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**spent, "rest": whole - sum(spent.values())}


def main() -> None:
    """Print a row for each way to train: medians over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=16, help="Of 2,048 environment steps each; the command: 80.")
    parser.add_argument("--episodes", type=int, default=40, help="Held-out episodes; the command: 200.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--checkpoint", type=Path, help="A run of reward-train; by default a small one is made.")
    parser.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        if given.one == ROWS[0]:
            spent = plain(given.updates, given.episodes, given.into)
        else:
            reward = (
                given.one if given.one == ROWS[1] else f"--reward {given.one} --reward.checkpoint {given.checkpoint}"
            )
            spent = ours(reward, given.updates, given.episodes, given.into)
        (given.into / "spent.json").write_text(json.dumps(spent))
        return
    found: dict[str, list[Spent]] = {name: [] for name in given.rows}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MOTIONKIT_CACHE"] = str(Path(folder) / "cache")
        checkpoint = given.checkpoint
        if checkpoint is None:
            checkpoint = classifier(Path(folder)) if ROWS[2] in given.rows else Path()
        for _ in range(given.rounds):
            for name, results in found.items():
                results.append(row(name, given, checkpoint.absolute()))
    told = {
        name: {part: statistics.median(one[part] for one in results) for part in PARTS}
        for name, results in found.items()
    }
    for name, results in found.items():
        told[name]["trained"] = statistics.median(one["updates"] + one["measuring"] for one in results)
        told[name]["whole"] = statistics.median(sum(one[part] for part in PARTS) for one in results)
    base = told[given.rows[0]]
    print(
        f"CPU-seconds{'':<10} " + " ".join(f"{part:>9}" for part in PARTS) + "   updates x, with measuring x, whole x"
    )
    for name, parts in told.items():
        ratios = "  ".join(f"{parts[key] / base[key]:14.2f}" for key in ("updates", "trained", "whole"))
        print(f"{name:<21} " + " ".join(f"{parts[part]:9.2f}" for part in PARTS) + f"  {ratios}")


if __name__ == "__main__":
    main()
