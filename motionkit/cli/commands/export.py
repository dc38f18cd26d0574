"""``motionkit export RUN OUT``: models for other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.cli.output import say, warn
from motionkit.cli.settings import settings_command
from motionkit.config import Cli, Settings


class ExportSettings(Settings):
    """Settings of `motionkit export`."""

    to: Annotated[Literal["mdm", "safetensors", "numpy", "onnx"] | None, Cli("--to")] = Field(
        None,
        description="mdm: model%09d.pt and args.json of the original MDM code. Of a motion predictor: safetensors; "
        "numpy, the same with a runtime that needs numpy alone; onnx. Default: the first that the model has.",
    )
    overwrite: Annotated[bool, Cli("--overwrite")] = Field(
        False, description="Replace what an earlier export wrote in OUT; other files stay."
    )


def register(app: typer.Typer) -> None:
    """Add the command."""

    @settings_command(app, ExportSettings)
    def export(
        settings: ExportSettings,
        run: Annotated[
            str, typer.Argument(metavar="RUN", help="Run folder, checkpoint, policy folder, or the word starter.")
        ],
        out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.")],
    ) -> Mapping[str, Any]:
        """Write a policy or a motion predictor for another tool; LoRA adapters are merged."""
        from motionkit.evaluation import export_model

        found, to, path, obstacles = export_model(run, settings.to, out, overwrite=settings.overwrite)
        say(found.describe())
        if obstacles:
            warn(
                f"the original MDM code cannot load this file: it does not know {', '.join(obstacles)}. "
                "motionkit reads it (--policy.checkpoint)."
            )
        say(f"wrote {path}")
        return {"to": to, "file": str(path), "not_in_stock_mdm": obstacles}
