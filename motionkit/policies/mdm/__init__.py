"""Motion Diffusion Model (Tevet et al. 2022): light half, imports no torch; the heavy half is in `api`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Cli, Group, Place
from motionkit.plugins import Component


class MDMOptions(Group):
    """Where an MDM policy comes from."""

    checkpoint: Annotated[str, Place(("starter",))] = Field(
        default="starter",
        description="'starter', a released model%09d.pt with args.json, or its folder; or a policy or run folder.",
    )
    reference: Annotated[str, Cli("--reference"), Place(("starter",))] = Field(
        default="", description="Policy that KL is measured to; default: the policy as it starts."
    )
    stats: Annotated[Path | None, Place()] = Field(
        default=None, description="Folder with Mean.npy and Std.npy; default: the policy's own, else the dataset's."
    )
    text_model: Annotated[str, Place(hub=True)] = Field(
        default="", description="Text model, a transformers folder or hub id; default: the local cache."
    )
    padding: Literal["exact", "full"] = Field(
        default="exact",
        description="exact: frames past a motion's end are never attended to; full: as in MDM's evaluation.",
    )
    diffusion_steps: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description="Steps the policy was trained with, where its args.json is wrong: files of the guides' GRPO code "
        "say 1000 whatever their base has.",
    )
    prefix: Annotated[Path | None, Place()] = Field(
        default=None,
        description="DiP only: .npy of features that motions continue; default: the start of the prompt's own motion "
        "in the dataset, else a person who stands still.",
    )


component = Component(
    summary="Motion Diffusion Model: starter, released or motionkit weights",
    options=MDMOptions,
    factory="motionkit.policies.mdm._factory:open_policy",
    exports={"mdm": "motionkit.policies.mdm._factory:export_checkpoint"},
)
