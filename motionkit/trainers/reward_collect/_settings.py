"""Settings of `motionkit reward-collect`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, Foreign, Group, RunSettings, TrainerSettings, slot
from motionkit.trainers._embodied import CollectStage
from motionkit.trainers.ppo import EpisodesSettings, PpoObjectiveSettings, PpoOptimSettings
from motionkit.trainers.reward_collect._guide import NAMES

POLICIES = ("ppo", "random", "scripted")


class CollectRunSettings(RunSettings):
    """Where the run goes and how long it lasts."""

    num_steps: Annotated[int, Cli("--num-steps", panel="Run")] = Field(
        12, ge=1, description="Rollouts at most; the run ends when no more episodes are wanted."
    )


class QuotaSettings(Group):
    """How many episodes of each class are kept; 0 keeps all."""

    positive: Annotated[int, Cli("--max-positive-trajectories")] = Field(
        500, ge=0, description="Episodes with a success; 0: all."
    )
    negative: Annotated[int, Cli("--max-negative-trajectories")] = Field(
        500, ge=0, description="Episodes without one; 0: all."
    )
    positive_frames: int = Field(0, ge=0, description="Frames of episodes with a success; 0: all.")
    negative_frames: int = Field(0, ge=0, description="Frames of episodes without one; 0: all.")


class CollectActorSettings(Group):
    """The network that ``--policy ppo`` trains while it collects, on the environment's own reward."""

    kind: Literal["mlp", "pixels"] = Field("mlp", description="mlp reads the state, pixels the cameras.")
    width: int = Field(64, ge=1, le=16_384, description="Width of the two hidden layers.")


class RewardCollectSettings(TrainerSettings):
    """Collect episodes to train a reward on."""

    run: CollectRunSettings = CollectRunSettings()
    env: Chosen = slot("environments", "reach", gives="episodes", description="Which environment to collect from.")
    policy: Annotated[str, Cli("--policy")] = Field(
        "ppo",
        min_length=1,
        description="ppo, which learns on the environment's reward meanwhile and is kept; random, scripted, or a run.",
    )
    import_from: Annotated[tuple[Path, Path] | None, Cli("--import", values=2)] = Field(
        None,
        description="Read the guide's folders of .npy trajectories instead: of successes, and of others. Nothing in "
        "them is executed.",
    )
    quota: QuotaSettings = QuotaSettings()
    licence: str = Field("", description="Licence of the pictures, noted beside them.")
    episodes: EpisodesSettings = EpisodesSettings()
    actor: CollectActorSettings = CollectActorSettings()
    objective: PpoObjectiveSettings = PpoObjectiveSettings()
    optim: PpoOptimSettings = PpoOptimSettings()
    stage: CollectStage = CollectStage()

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Return what the guide's ``maniskill_ppo_cnn.yaml`` means as stage 1; see `Settings.translate`."""
        return NAMES.translate(table, path, cls.model_fields)

    @classmethod
    def translate_sets(cls, sets: Mapping[str, str]) -> Foreign | None:
        """Return what the guide's dotted names mean; see `Settings.translate_sets`."""
        return NAMES.translate_sets(sets, cls.model_fields)
