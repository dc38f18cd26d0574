"""PPO by Stable-Baselines3; only this module touches its internals."""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from motionkit.errors import MotionkitError
from motionkit.training.learner import out_of_range
from motionkit.training.steps import ModelState, OptimizerState, Parts, State
from motionkit_success.actor import Actor, PixelFeatures, network_options
from motionkit_success.ppo.scored_env import ScoredEnv
from motionkit_success.ppo.settings import PpoSettings

_EPOCHS = {"mlp": 8, "pixels": 4}
_NAMES = {
    "train/policy_gradient_loss": "loss/policy", "train/value_loss": "loss/value", "train/loss": "loss/total",
    "train/entropy_loss": "ppo/negative_entropy", "train/approx_kl": "ppo/kl_nats",
    "train/clip_fraction": "ratio/clip_fraction", "train/explained_variance": "ppo/explained_variance",
}  # fmt: skip
_CRITIC = "value_net"  # part of the names of the critic's own parameters: its layers and its output
_NO_NUMBERS = "Expected parameter "
"""Beginning of the error of torch's distributions if a mean, a scale or a logit is not finite."""


class Sb3Ppo:
    """Stable-Baselines3's PPO, one rollout at a time; its state goes into checkpoints, without pickles."""

    def __init__(self, actor: Actor, env: ScoredEnv, settings: PpoSettings) -> None:
        self.actor, self._env = actor, env
        objective, kind = settings.objective, actor.spec.kind
        with warnings.catch_warnings():
            # It warns of small networks on a GPU; the device is the user's choice.
            warnings.simplefilter("ignore", UserWarning)
            self._ppo = PPO(
                "MlpPolicy" if kind == "mlp" else "CnnPolicy", env,
                learning_rate=settings.optim.learning_rate, max_grad_norm=settings.optim.grad_clip,
                n_steps=settings.episodes.steps, n_epochs=objective.epochs or _EPOCHS[kind],
                batch_size=min(objective.batch_size, settings.episodes.steps * env.num_envs),
                gamma=objective.gamma, gae_lambda=objective.gae_lambda, clip_range=objective.clip_range,
                ent_coef=objective.entropy, vf_coef=objective.value, target_kl=objective.kl_stop or None,
                policy_kwargs=network_options(actor.spec), device=actor.network.device,
            )  # fmt: skip
        self._ppo.policy.load_state_dict(actor.network.state_dict())
        actor.network = self._ppo.policy
        if isinstance(features := actor.network.features_extractor, PixelFeatures):
            features.shift = settings.augment.shift
        self._ppo.set_logger(Logger(folder=None, output_formats=[]))
        # `PPO.learn` would make these; here the environment counts episodes.
        self._ppo.ep_info_buffer = deque(maxlen=1)
        self._ppo.ep_success_buffer = deque(maxlen=1)
        self._callback = _Quiet()
        self._callback.init_callback(self._ppo)

    def update(self, *, critic_alone: bool = False) -> dict[str, float]:
        """Gather one rollout and learn from it, or train the critic alone; returns metrics."""
        ppo = self._ppo
        for name, values in ppo.policy.named_parameters():
            values.requires_grad_(_CRITIC in name or not critic_alone)
        if ppo._last_obs is None:
            ppo._last_obs = self._env.reset()
            ppo._last_episode_starts = np.ones(self._env.num_envs, np.bool_)
        try:
            ppo.collect_rollouts(self._env, self._callback, ppo.rollout_buffer, n_rollout_steps=ppo.n_steps)
            ppo.train()
        except ValueError as error:
            if not str(error).startswith(_NO_NUMBERS):
                raise
            raise self._lost() from error
        if not all(bool(values.isfinite().all()) for values in self.actor.network.state_dict().values()):
            raise self._lost()
        metrics = {ours: float(ppo.logger.name_to_value[theirs]) for theirs, ours in _NAMES.items()}
        ppo.logger.name_to_value.clear()
        return {**metrics, "ppo/environment_steps": float(ppo.num_timesteps)}

    def _lost(self) -> MotionkitError:
        rate: Any = self._ppo.learning_rate
        return out_of_range("the policy's actions are not finite.", "its network gives no number", float(rate))

    def parts(self) -> Parts:
        """Return what a checkpoint holds: weights, Adam, the running episodes, and counters."""
        network = self._ppo.policy
        return {
            "model": ModelState(self.actor), "optimizer": OptimizerState(network.optimizer, network),
            "episodes": self._env, "ppo": self,
        }  # fmt: skip

    def state(self) -> State:
        """Return the last observation and the counters."""
        ppo = self._ppo
        values = {"steps": ppo.num_timesteps, "updates": ppo._n_updates}
        if ppo._last_obs is None:
            return State(values=values)
        seen, starts = np.asarray(ppo._last_obs), np.asarray(ppo._last_episode_starts)
        return State({"seen": torch.from_numpy(seen.copy()), "starts": torch.from_numpy(starts.copy())}, values)

    def load_state(self, state: State) -> None:
        """Put them back, after the running episodes; if these begin anew, so do the observations."""
        ppo = self._ppo
        ppo.num_timesteps, ppo._n_updates = int(state.values["steps"]), int(state.values["updates"])
        if self._env.resumes and "seen" in state.tensors:
            ppo._last_obs = state.tensors["seen"].numpy()
            ppo._last_episode_starts = state.tensors["starts"].numpy().astype(np.bool_)


class _Quiet(BaseCallback):
    """A callback that does nothing; `ppo.train` has the loop around `Sb3Ppo.update`."""

    def _on_step(self) -> bool:
        return True
