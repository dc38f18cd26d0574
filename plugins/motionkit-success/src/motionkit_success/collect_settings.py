"""`motionkit reward-collect`: episodes that cameras saw, with the success of each frame. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, Group, slot
from motionkit.plugins import Component
from motionkit.training.settings import CheckpointSettings, RunSettings
from motionkit_success.ppo.settings import (
    FLOAT32,
    ActingSettings,
    EpisodesSettings,
    PpoObjectiveSettings,
    PpoOptimSettings,
)

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


class RewardCollectSettings(ActingSettings):
    """Collect episodes to train a reward on."""

    command = "reward-collect"

    run: CollectRunSettings = CollectRunSettings()
    checkpoint: CheckpointSettings = CheckpointSettings(every=1)
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

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        idle = {**super().idle(), **FLOAT32}
        if self.policy != "ppo":
            learned: dict[str, type[Group]] = {
                "actor": CollectActorSettings,
                "objective": PpoObjectiveSettings,
                "optim": PpoOptimSettings,
            }
            keys = [f"{name}.{option}" for name, group in learned.items() for option in group.model_fields]
            idle |= dict.fromkeys(keys, "--policy is not ppo, so nothing is learned")
        return idle


component = Component(
    summary="Collect camera images of episodes with and without success, to train a reward on.",
    options=RewardCollectSettings,
    factory="motionkit_success.collect:open_trainer",
    metrics="motionkit_success.metrics:METRICS",
    sections="motionkit_success.pages:SECTIONS",
    charts="motionkit_success.pages:CHARTS",
    next="motionkit_success.next:after_collect",
    exports_data="motionkit_success.episodes.export:export_episodes",
)
