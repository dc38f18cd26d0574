"""``motionkit export RUN --to mdm OUT``: models for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from motionkit.cli.output import JsonFlag, emit, say, warn


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def export(
        run: Annotated[
            str, typer.Argument(metavar="RUN", help="Run folder, checkpoint, policy folder, or the word starter.")
        ],
        out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.")],
        to: Annotated[
            Literal["mdm"], typer.Option("--to", help="mdm: model%09d.pt and args.json of the original MDM code.")
        ] = "mdm",
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="Replace what an earlier export wrote in OUT; other files stay.")
        ] = False,
        json: JsonFlag = False,
    ) -> None:
        """Write a policy for another tool; LoRA adapters are merged."""
        from motionkit.evaluation import export_model

        found, path, obstacles = export_model(run, to, out, overwrite=overwrite)
        say(found.describe())
        if obstacles:
            warn(
                f"the original MDM code cannot load this file: it does not know {', '.join(obstacles)}. "
                "motionkit reads it (--policy.checkpoint)."
            )
        say(f"wrote {path}")
        emit(
            {"command": "export", "status": "done", "to": to, "file": str(path), "not_in_stock_mdm": obstacles},
            json=json,
        )
