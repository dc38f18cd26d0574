"""The root command."""

from __future__ import annotations

import typer

app = typer.Typer(name="motionkit", add_completion=False)


@app.callback()
def root() -> None:
    """Teach human-motion models with rewards."""
