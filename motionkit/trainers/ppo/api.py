"""The heavy half of PPO: imports torch and Stable-Baselines3."""

from motionkit.trainers.ppo._backend import PolicyLearner, Sb3Ppo
from motionkit.trainers.ppo._scorer import Scorer, Term
from motionkit.trainers.ppo._vec_env import ScoredEnv

__all__ = ["PolicyLearner", "Sb3Ppo", "ScoredEnv", "Scorer", "Term"]
