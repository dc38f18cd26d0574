"""``motionkit compose``: prompts of several actions, joined from single clips."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field, field_validator

from motionkit.config import Chosen, Cli, Settings, slot
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.contracts.dataset import TextMotionDataset
    from motionkit.text_to_motion.data.compose import Composed, Plan, TextTower, Written

_STARTER = "starter"


class ComposeSettings(Settings):
    """Settings of `motionkit compose`."""

    dataset: Chosen = slot("datasets", "starter", description="Dataset of the single clips.", gives="text-motion")
    split: Annotated[Literal["train", "val", "test"], Cli("--split")] = Field(
        "train", description="Split the clips come from; splits are never mixed."
    )
    k_segments: Annotated[int, Cli("--k-segments")] = Field(
        3, le=1000, description="Actions per prompt (K), at least 2."
    )
    target_length: Annotated[int, Cli("--target-length")] = Field(
        196, ge=8, le=2000, description="Longest total in frames."
    )
    tolerance: Annotated[int, Cli("--tolerance")] = Field(
        20, ge=0, le=2000, description="Totals have at least target-length - tolerance frames."
    )
    fps: Annotated[float | None, Cli("--fps")] = Field(
        None, gt=0, description="Must equal the dataset's frame rate, which is the default."
    )
    max_samples: Annotated[int, Cli("--max-samples")] = Field(1000, ge=1, le=100_000, description="Prompts to make.")
    crop: Annotated[bool | None, Cli("--crop")] = Field(
        None, description="Cut clips to windows of at least 36 frames where they are too long; default: from K = 4 on."
    )
    seed: Annotated[int, Cli("--seed")] = Field(0, ge=0, description="Seed of the chosen clips.")
    b_matrix: Annotated[bool, Cli("--b-matrix", panel="B-matrix")] = Field(
        False, description="Store how much the texts of a prompt resemble each other (cosines, K x K)."
    )
    tower: Annotated[str, Cli("--tower", panel="B-matrix")] = Field(
        _STARTER, description="TMR whose text encoder computes the B-matrix: 'starter', a folder or a file."
    )
    text_model: Annotated[str, Cli("--text-model", panel="B-matrix")] = Field(
        "", description="Text model in front of the TMR: name, folder, hub id; default: the one it was trained with."
    )
    text_encoder: Annotated[
        Literal["clip", "distilbert", "minilm", "stored"] | None, Cli("--text-encoder", panel="B-matrix")
    ] = Field(None, description="Compare with a plain text encoder instead of a TMR.")
    legacy_npy: Annotated[bool, Cli("--legacy-npy", panel="Output")] = Field(
        False, description="Also write the original code's pickled .npy."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Output")] = Field(
        False, description="Replace the same set in OUT."
    )
    device: Annotated[str, Cli("--device", panel="B-matrix")] = Field(
        "auto", description="Where texts are encoded: auto, cpu, mps, cuda, cuda:N or N."
    )

    @field_validator("k_segments")
    @classmethod
    def _several(cls, value: int) -> int:
        if value < 2:
            raise ValueError(
                f"a composite prompt joins at least 2 clips, not {value}; single captions need no composing: every "
                "dataset gives them with --k-segments 1"
            )
        return value


def compose(
    settings: ComposeSettings,
    console: Console,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for composite_k{K}_{split}.json and .npz.")],
) -> Mapping[str, Any]:
    """Join single clips into prompts of K actions with lengths, reference motions and, on request, B-matrices.

    grpo and generate read the folder with --dataset composite --dataset.path OUT.
    """
    from motionkit.text_to_motion.data import compose as api

    started = time.monotonic()
    plan = _plan(settings)
    files = api.planned_files(out, plan, legacy=settings.legacy_npy, overwrite=settings.overwrite)
    dataset: TextMotionDataset = settings.dataset.build()
    if settings.fps is not None and abs(settings.fps - dataset.fps) > 1e-6:
        raise MotionkitError(
            f"--fps {settings.fps:g} is not the rate of {settings.dataset.label}, which is {dataset.fps:g}.",
            why="lengths in frames would be seconds of another clock.",
            fix=f"leave --fps out, or give --fps {dataset.fps:g}.",
        )
    tower = _tower(settings, console) if settings.b_matrix else None
    with console.working(plan.max_samples) as step:
        composed = api.compose(dataset, plan, tower=tower, progress=step)
    api.write_composed(composed, files)
    if files.legacy is not None and not settings.legacy_npy:
        console.say(f"{files.legacy} was there: it is written again, so that it is of the same set.")
    console.say(f"joined from the {settings.split} clips of {settings.dataset.label}")
    return _composed(console, composed, files, time.monotonic() - started)


def _plan(settings: ComposeSettings) -> Plan:
    from motionkit.text_to_motion.data import compose as api

    return api.Plan(
        settings.split,
        settings.k_segments,
        settings.target_length,
        settings.tolerance,
        settings.max_samples,
        settings.seed,
        settings.crop,
    )


def _check_compose(settings: ComposeSettings, out: Path) -> None:
    """Refuse what needs no data to be seen, of a dry run too."""
    from motionkit.text_to_motion.data.compose import planned_files

    _refuse_idle(settings)
    planned_files(out, _plan(settings), legacy=settings.legacy_npy, overwrite=settings.overwrite)


def _refuse_idle(settings: ComposeSettings) -> None:
    """Refuse options that contradict each other or cannot act."""
    if settings.tolerance >= settings.target_length:
        raise MotionkitError(
            f"--tolerance {settings.tolerance} leaves nothing of --target-length {settings.target_length}.",
            fix="give a tolerance below the target length, such as --tolerance 20.",
        )
    named = {"--tower": settings.tower != _STARTER, "--text-encoder": settings.text_encoder is not None}
    more = {"--text-model": bool(settings.text_model), "--device": settings.device != "auto"}
    for flag, given in {**named, **more}.items():
        if given and not settings.b_matrix:
            raise MotionkitError(f"{flag} has no effect without --b-matrix.", fix=f"add --b-matrix, or drop {flag}.")
    if all(named.values()):
        raise MotionkitError("--tower and --text-encoder both say what compares texts.", fix="give one of them.")


def _tower(settings: ComposeSettings, console: Console) -> TextTower:
    """Open what compares texts."""
    from motionkit.contracts.device import resolve_device
    from motionkit.text import load_encoder
    from motionkit.text_to_motion.data.compose import EncoderTower, TmrTower
    from motionkit.text_to_motion.tmr.files import open_tmr, text_table

    device = resolve_device(settings.device)
    if settings.text_encoder is None:
        if settings.tower == _STARTER and settings.dataset.label != _STARTER:
            console.warn(
                f"the B-matrix of {settings.dataset.label} will be what the starter's small TMR makes of its captions, "
                "which it was not trained on; --tower DIR names another TMR, --text-encoder NAME a plain text encoder."
            )
        return TmrTower(open_tmr(settings.tower, text_model=settings.text_model, device=device), settings.tower)
    stored = settings.text_encoder == "stored"
    return EncoderTower(
        load_encoder(
            settings.text_encoder, model=settings.text_model, table=text_table() if stored else None, device=device
        )
    )


def _composed(console: Console, composed: Composed, files: Written, seconds: float) -> Mapping[str, Any]:
    """Say what was made, and return the document."""
    for text in composed.warnings:
        console.warn(text)
    totals = _range([sample.total_frames for sample in composed.samples])
    parts = _range([frames for sample in composed.samples for frames in sample.durations_frames])
    short = sum(any(sample.outside_tmr_range) for sample in composed.samples)
    written = [str(path) for path in (files.document, files.arrays, files.legacy) if path is not None]
    rows = [
        ("prompts", f"{len(composed.samples)} of {composed.asked}"),
        ("segments each", composed.metadata.k_segments),
        ("frames, least / median / most", " / ".join(f"{value:g}" for value in totals.values())),
        ("frames of a segment", " / ".join(f"{value:g}" for value in parts.values())),
        ("prompts with a segment under 2 s", short),
        ("B-matrix", composed.metadata.text_tower.name if composed.metadata.text_tower else "none (--b-matrix)"),
        ("draws", composed.attempts),
        ("seconds", round(seconds, 1)),
    ]
    console.say(f"use it: --dataset composite --dataset.path {files.document.parent}")
    return {
        "out": str(files.document.parent),
        "files": written,
        "samples": len(composed.samples),
        "asked": composed.asked,
        "attempts": composed.attempts,
        "metadata": composed.metadata.model_dump(mode="json"),
        "frames": totals,
        "outside_tmr_range": short,
        "histogram": {str(start): count for start, count in composed.histogram.items()},
        "warnings": list(composed.warnings),
        "seconds": round(seconds, 3),
        "table": {"title": f"wrote {files.document}", "columns": ("", ""), "rows": rows},
    }


def _range(values: Sequence[int]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


COMPOSE = Command(compose, ComposeSettings, check=_check_compose)
