"""``motionkit generate TEXT... OUT``: motions from text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.cli.output import say
from motionkit.cli.progress import bar
from motionkit.cli.settings import settings_command
from motionkit.config import Chosen, Cli, Group, slot
from motionkit.errors import MotionkitError


class SamplerSettings(Group):
    """How the policy is sampled."""

    kind: Annotated[Literal["ddpm", "ddim"], Cli("--sampler", panel="Sampling")] = Field(
        default="ddpm", description="ddpm: ancestral, as MDM generates; ddim: deterministic, good with fewer steps."
    )
    inference_timesteps: Annotated[int, Cli("--inference-timesteps", panel="Sampling")] = Field(
        default=0, ge=0, description="Sampling steps, spread over the trained ones; 0 takes all of them."
    )
    guidance_scale: Annotated[float, Cli("--guidance-scale", panel="Sampling")] = Field(
        default=2.5, ge=0, description="Classifier-free guidance scale; 1 is off."
    )
    eta: float = Field(default=0.0, ge=0, le=1, description="Noise of ddim.")


class GenerateSettings(Group):
    """Everything `motionkit generate` can be told."""

    policy: Chosen = slot("policies", "mdm")
    sampler: SamplerSettings = SamplerSettings()
    num_samples: Annotated[int, Cli("--num-samples", panel="Sampling")] = Field(
        default=1, ge=1, description="Motions per text."
    )
    seed: Annotated[int, Cli("--seed", panel="Sampling")] = Field(default=0, ge=0, description="Seed of the noise.")
    device: Annotated[str, Cli("--device")] = Field(default="auto", description="auto, cpu, mps, cuda, cuda:N or N.")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @settings_command(app, GenerateSettings)
    def generate(
        settings: GenerateSettings,
        texts: Annotated[
            list[str], typer.Argument(metavar="TEXT...", help="What to do; ' | ' separates actions that follow.")
        ],
        out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.")],
        durations: Annotated[
            str, typer.Option("--durations", metavar="S,S", help="Seconds of each action; default: 6 s shared equally.")
        ] = "",
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="Write into OUT if it has something in it.")
        ] = False,
    ) -> Mapping[str, Any]:
        """Make motions from text: joints, features and motions.json."""
        from motionkit.evaluation import generate as write_motions
        from motionkit.policies.base import DiffusionPolicy
        from motionkit.rl import DDIM, DDPM, StepPlan
        from motionkit.text import Prompt
        from motionkit.trainers._device import resolve_device

        seconds = _seconds(durations)
        policy: DiffusionPolicy = settings.policy.build(device=resolve_device(settings.device))
        prompts = [Prompt.parse(text, fps=policy.fps, durations=seconds) for text in texts]
        sampler = settings.sampler
        plan = StepPlan.build(
            policy.schedule,
            DDPM() if sampler.kind == "ddpm" else DDIM(sampler.eta),
            steps=sampler.inference_timesteps or None,
        )
        with bar("generate", total=len(prompts) * settings.num_samples) as step:
            motions = write_motions(
                policy,
                prompts,
                out,
                plan,
                samples=settings.num_samples,
                guidance=sampler.guidance_scale,
                seed=settings.seed,
                facts={
                    "sampler": sampler.model_dump(mode="json"),
                    "policy": settings.policy.options.model_dump(mode="json"),
                },
                overwrite=overwrite,
                progress=step,
            )
        say(f"wrote {len(motions)} motion(s) to {out}")
        return {"out": str(out), "fps": policy.fps, "motions": motions}


def _seconds(text: str) -> list[float] | None:
    if not text:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise MotionkitError(
            f"--durations {text} are not numbers.", fix="write seconds, such as --durations 3,2"
        ) from error
    if any(not 0 < value < 1e6 for value in values):
        raise MotionkitError(f"--durations {text}: every duration must be above 0 s.", fix="such as --durations 3,2")
    return values
