"""``motionkit eval KIND ...``: a model measured by a named protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.cli import command_line
from motionkit.cli._stop import working
from motionkit.cli.output import say
from motionkit.cli.settings import settings_command
from motionkit.config import Chosen, Cli, Settings, slot

_STARTER = "starter"


class RetrievalSettings(Settings):
    """Settings of `motionkit eval retrieval`."""

    dataset: Chosen | None = slot(
        "datasets", None, description="Dataset; default: that of the run.", gives=("text-motion", "composite")
    )
    split: Annotated[Literal["val", "test"], Cli("--split")] = Field(
        "val", description="Split to measure on; that test was opened is noted in the run."
    )
    stats: Annotated[Path | None, Cli("--stats")] = Field(None, description="Folder with TMR's own mean and std.")
    text_model: Annotated[str, Cli("--text-model")] = Field(
        "", description="Text model: name, folder, hub id, or precomputed token_embeddings folder."
    )
    threshold: Annotated[float, Cli("--threshold")] = Field(
        0.95, ge=0, le=1, description="Protocol threshold: captions count as alike from a cosine of 2 X - 1 on."
    )
    nsim: Annotated[Path | None, Cli("--nsim")] = Field(
        None, description="Protocol nsim: file with one clip id a line; default: 100 items are chosen."
    )
    device: Annotated[str, Cli("--device")] = Field("auto", description="auto, cpu, mps, cuda, cuda:N or N.")


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """Measure a model by a named protocol."""

    @settings_command(app, RetrievalSettings, name="eval retrieval")
    def retrieval(
        settings: RetrievalSettings,
        model: Annotated[
            str, typer.Argument(metavar="TMR", help="Run of pretrain tmr, TMR folder or file; default: the starter's.")
        ] = _STARTER,
    ) -> Mapping[str, Any]:
        """Measure a text-motion retrieval model by TMR's four protocols, both directions, both conventions of ties."""
        from motionkit.evaluation import dataset_for, measure_retrieval, open_retrieval, open_test_split, read_nsim
        from motionkit.policies.device import resolve_device

        nsim = read_nsim(settings.nsim) if settings.nsim is not None else ()
        found, tmr = open_retrieval(
            model, stats=settings.stats, text_model=settings.text_model, device=resolve_device(settings.device)
        )
        chosen = dataset_for(found, settings.dataset)
        dataset = chosen.build()
        if note := open_test_split(settings.split, found, " ".join(["motionkit", *command_line.get()])):
            say(note)
        clips = dataset.clips(settings.split)
        with working("eval retrieval", len(clips)) as step:
            result = measure_retrieval(tmr, clips, threshold=settings.threshold, nsim=nsim, progress=step)
        for text in result.notes:
            say(text)
        return {
            "model": found.path,
            "dataset": chosen.label,
            "split": settings.split,
            "candidates": result.candidates,
            "protocols": result.protocols,
            "notes": list(result.notes),
            "table": result.table(f"{found.path}, {settings.split} split of {chosen.label}: retrieval in percent"),
        }
