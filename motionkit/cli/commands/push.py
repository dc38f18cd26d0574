"""``motionkit push FOLDER ORG/NAME``: a folder that `motionkit export --to hub` wrote, sent to the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from motionkit.config import Cli, Settings
from motionkit.contracts.console import Command, Console


class PushSettings(Settings):
    """Settings of `motionkit push`."""

    public: Annotated[bool, Cli("--public")] = Field(
        False, description="Make a repository that everyone sees; one that is there stays as it is."
    )


def push(
    settings: PushSettings,
    console: Console,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What motionkit export --to hub wrote.")],
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Id of the repository on the hub.")],
) -> Mapping[str, Any]:
    """Send an exported model to the Hugging Face hub, privately unless told otherwise.

    Only the files that the export wrote are sent; --dry-run lists them and sends nothing. A folder that holds
    anything else is refused.
    """
    from motionkit import weights
    from motionkit.report.card import hub_files

    weights.require_hub_id(name)
    files = hub_files(folder)
    address = weights.push(folder, name, files, public=settings.public)
    console.say(f"sent {len(files)} files to {address}")
    return {"address": address, "files": files}


def _plan(settings: PushSettings, folder: Path, name: str) -> Mapping[str, Any]:
    from motionkit import weights
    from motionkit.report.card import hub_files

    weights.require_hub_id(name)
    return {"would_send": hub_files(folder), "to": name}


PUSH = Command(push, PushSettings, plan=_plan)
