"""The flags of each command, frozen: having one more is a decision, not an accident.

Run ``python tests/cli/test_flag_list.py`` when a flag was added or removed on purpose, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.main import get_command

from motionkit import plugins
from motionkit.cli._app import load_register
from motionkit.cli.output import rows
from motionkit.cli.settings import flags
from motionkit.config import Draft
from motionkit.config.sources import Layer

FILE = Path(__file__).with_name("flags.json")


def current() -> dict[str, list[str]]:
    """Return the flags of every built-in command, with the plugins it chooses by default."""
    found: dict[str, list[str]] = {}
    for entry in plugins.available("trainers"):
        if entry.builtin:
            model = plugins.get("trainers", f"motionkit:{entry.name}").options
            drafts = {entry.name.replace(".", " "): Draft(model)}
            for each in plugins.available("algorithms") if entry.name == "grpo" else ():
                layer = Layer("command line", {"algorithm": each.name})
                drafts[f"grpo --algorithm {each.name}"] = Draft(model, [layer])
            for name, draft in drafts.items():
                found[name] = sorted(word for flag in flags(draft) if not flag.hidden for word in flag.names)
    for row in rows():
        app = typer.Typer(add_completion=False)
        load_register(row.target)(app)
        command = get_command(app)
        for name, each in (getattr(command, "commands", None) or {"": command}).items():
            options = [option for item in each.params if item.param_type_name == "option" for option in item.opts]
            found[f"{row.name} {name}".strip()] = sorted(set(options) - {"--help"})
    return dict(sorted(found.items()))


def test_flags_are_those_that_were_decided_on() -> None:
    decided: dict[str, list[str]] = json.loads(FILE.read_text())
    found = current()
    assert sorted(found) == sorted(decided), __doc__
    for command, names in found.items():
        assert names == decided[command], f"{command}: {__doc__}"


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n")
