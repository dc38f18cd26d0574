"""`motionkit plugins`: list, show, new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motionkit.cli.output import JsonFlag, emit, finish, say, table, warn, write
from motionkit.errors import MotionkitError


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """List, show, check and start plugins."""

    app.command("list")(list_plugins)
    app.command("show")(show_plugin)
    app.command("new")(new_plugin)


def list_plugins(
    kind: Annotated[
        str, typer.Argument(help="rewards, trainers, datasets, environments or policies; all by default.")
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Import each one, in a process of its own, and read all metadata a second time.",
            metavar="",
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List what is installed; reads metadata only."""
    from motionkit import plugins

    kinds = (kind,) if kind else plugins.KINDS
    entries = [entry for name in kinds for entry in plugins.available(name)]
    problems = [str(broken) for broken in plugins.scan().broken]
    odd: list[str] = []
    if check:
        from motionkit.plugins._diagnose import diagnose

        findings = diagnose()
        problems = [f"{finding.package}: {finding.text}" for finding in findings if finding.serious]
        odd = [f"{finding.package}: {finding.text}" for finding in findings if not finding.serious]
    columns = ["kind", "name", "package", "version"]
    rows = [[entry.kind, entry.name, entry.distribution, entry.version] for entry in entries]
    error = None
    if check and problems:
        count = len(problems)
        error = MotionkitError(
            f"{count} problem{'s' if count > 1 else ''} with installed plugins.\n  " + "\n  ".join(problems),
            fix="update or remove those packages; everything else works.",
            code=1,
        )
    if not json:
        table("", columns, rows)
        for text in [*odd, *([] if check else problems)]:
            warn(text)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    document = {"command": "plugins list", "plugins": found, "problems": problems, "warnings": odd}
    finish(document, error, json=json)
    if check and not json:
        say(f"{len(entries)} plugins import; both readers of the metadata agree.")


def show_plugin(
    kind: Annotated[str, typer.Argument(help="rewards, trainers, datasets, environments or policies.")],
    name: Annotated[str, typer.Argument(help="NAME, DIST:NAME or ./file.py:obj.")],
    json: JsonFlag = False,
) -> None:
    """Show one plugin: what it does, its options, what it needs."""
    from motionkit import plugins
    from motionkit.cli._flags import _default
    from motionkit.config import leaves
    from motionkit.config._tree import limits, type_name

    component = plugins.get(kind, name)
    rows = [
        [
            leaf.key,
            type_name(leaf.field.annotation),
            _default(leaf.default).removeprefix("default: "),
            limits(leaf.field),
            leaf.help,
        ]
        for leaf in leaves(component.options)
        if leaf.slot is None
    ]
    columns = ["option", "type", "default", "limits", "meaning"]
    entry = None if plugins.is_file(name) else plugins.find(kind, name)
    package = f"{entry.distribution} {entry.version}" if entry is not None else name
    if json:
        options = [dict(zip(columns, row, strict=True)) for row in rows]
        about = {"kind": kind, "name": name, "package": package, "summary": component.summary}
        more = {"factory": component.factory, "needs": list(component.needs), "missing": component.missing()}
        emit({"command": "plugins show", **about, **more, "options": options}, json=True)
        return
    write(f"{name}  ({package})\n{component.summary}\nfactory: {component.factory}")
    if missing := component.missing():
        write(f"needs: {', '.join(missing)} (not installed)")
    table("", columns, rows)


def new_plugin(
    package: Annotated[str, typer.Argument(help="Name of the package, such as motionkit-reward-bounce.")],
    parent: Annotated[Path, typer.Option("--in", help="Folder to make it in.", metavar="DIR")] = Path(),
    json: JsonFlag = False,
) -> None:
    """Start a reward in a pip package of its own: code, tests, README."""
    from motionkit.plugins._scaffold import new_reward

    files = new_reward(package, parent)
    emit({"command": "plugins new", "files": [str(file) for file in files]}, json=json)
    place = parent / package
    say(f"wrote {place} ({len(files)} files). Next: pip install -e {place} && pytest {place}")
