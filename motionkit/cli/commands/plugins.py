"""`motionkit plugins`: list, show, new."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motionkit.cli.output import JsonFlag, emit, finish, say, table, warn, write
from motionkit.errors import MotionkitError
from motionkit.plugins import KINDS, Entry, either, with_article
from motionkit.plugins.scaffold import startable

if TYPE_CHECKING:
    from motionkit.plugins.check import ImportOutcome

_GIVES = "; ".join(
    f"{with_article(row.singular)} {either([f'{next(iter(row.gives))} (default)', *row.scaffolds])}"
    for row in KINDS.values()
    if row.scaffolds
)
"""The words of ``--gives``."""


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """List, show, check and start plugins."""

    app.command("list")(list_plugins)
    app.command("show")(show_plugin)
    app.command("new")(new_plugin)


def list_plugins(
    kind: Annotated[str, typer.Argument(help=f"{either(KINDS)}; all by default.")] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Load and build each one, and check it against its kind.",
            metavar="",
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List what is installed, with what each plugin gives and reads; without --check nothing of others is imported."""
    from motionkit import plugins
    from motionkit.plugins.check import try_builds

    kinds = (kind,) if kind else tuple(plugins.KINDS)
    entries = [entry for name in kinds for entry in plugins.available(name)]
    problems = [str(broken) for broken in plugins.scan().broken]
    odd = [plugins.KINDS[kind].note] if kind and plugins.KINDS[kind].note else []
    outcomes: dict[plugins.Entry, ImportOutcome] = {}
    if check:
        from motionkit.formats import table as formats
        from motionkit.plugins.check import diagnose

        outcomes = try_builds(plugins.scan().entries)
        findings = diagnose(outcomes)
        problems = [f"{finding.package}: {finding.text}" for finding in findings if finding.serious]
        problems += formats.problems()
        odd += [f"{finding.package}: {finding.text}" for finding in findings if not finding.serious]
    columns = ["kind", "name", "gives", "reads", "package", "version"]
    rows = [
        [entry.kind, entry.name, *_words(entry, outcomes.get(entry)), entry.distribution, entry.version]
        for entry in entries
    ]
    error = None
    if check and problems:
        count = len(problems)
        error = MotionkitError(
            f"{count} problem{'s' if count > 1 else ''} with installed plugins.\n  " + "\n  ".join(problems),
            fix="correct, update or remove those packages; everything else works.",
            code=1,
        )
    if not json:
        table("", columns, rows)
        for text in [*odd, *([] if check else problems)]:
            warn(text)
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    document = {"command": "plugins list", "plugins": documents, "problems": problems, "warnings": odd}
    finish(document, error, json=json)
    if check and not json:
        say(f"All {len(entries)} plugins load.")


def _words(entry: Entry, outcome: ImportOutcome | None) -> tuple[str, str]:
    """Return what a plugin gives and reads; empty for a package of others that was not imported."""
    from motionkit import plugins

    if outcome is not None:
        return outcome.gives, outcome.reads
    if not entry.builtin:
        return "", ""
    component = plugins.get(entry.kind, f"{entry.distribution}:{entry.name}")
    return plugins.gives_of(entry.kind, component), plugins.reads_of(entry.kind, component)


def show_plugin(
    kind: Annotated[str, typer.Argument(help=f"{either(KINDS)}.")],
    name: Annotated[str, typer.Argument(help="NAME, DIST:NAME or ./file.py:obj.")],
    json: JsonFlag = False,
) -> None:
    """Show one plugin: what it does, its options, what it needs."""
    from motionkit import plugins
    from motionkit.config import leaves, slots_of

    component = plugins.get(kind, name, typed=True)
    chosen = slots_of(component.options)
    rows = [
        [leaf.key, leaf.type_name, leaf.default_text, leaf.limits, leaf.help]
        for leaf in leaves(component.options)
        if leaf.path[0] not in chosen
    ]
    columns = ["option", "type", "default", "limits", "meaning"]
    entry = None if plugins.is_file(name) else plugins.find(kind, name)
    package = f"{entry.distribution} {entry.version}" if entry is not None else name
    if json:
        options = [dict(zip(columns, row, strict=True)) for row in rows]
        words = {"gives": plugins.gives_of(kind, component), "reads": plugins.reads_of(kind, component)}
        about = {"kind": kind, "name": name, "package": package, "summary": component.summary, **words}
        more = {"factory": component.factory, "needs": list(component.needs), "missing": component.missing()}
        emit({"command": "plugins show", **about, **more, "options": options}, json=True)
        return
    write(f"{name}  ({package})\n{component.summary}\nfactory: {component.factory}")
    for verb, word in (("gives", plugins.gives_of(kind, component)), ("reads", plugins.reads_of(kind, component))):
        if word:
            write(f"{verb}: {word}")
    if missing := component.missing():
        write(f"needs: {', '.join(missing)} (not installed)")
    table("", columns, rows)


def new_plugin(
    words: Annotated[
        list[str],
        typer.Argument(
            help=f"{either(row.singular for row in startable())}; then a name, such as bounce.",
            metavar="KIND NAME",
        ),
    ],
    parent: Annotated[Path, typer.Option("--in", help="Folder to make it in.", metavar="DIR")] = Path(),
    gives: Annotated[str, typer.Option("--gives", help=f"What it gives: {_GIVES}.", metavar="WORD")] = "",
    json: JsonFlag = False,
) -> None:
    """Start a plugin in a pip package of its own: code that works, tests, README."""
    from motionkit.cli.table import rows
    from motionkit.plugins import scaffold as _scaffold
    from motionkit.plugins.packages import commands

    if len(words) > 2:
        raise MotionkitError(f"one package at a time, not {' '.join(words)}.", fix="motionkit plugins new KIND NAME")
    taken = {row.name for row in rows()} | {name.partition(" ")[0] for name in commands() if " " in name}
    files = _scaffold.new_plugin(
        words[-1], parent, singular=words[0] if len(words) == 2 else "", gives=gives, taken=taken
    )
    emit({"command": "plugins new", "files": [str(file) for file in files]}, json=json)
    place = files[0].parent
    say(f"wrote {place} ({len(files)} files). Next: pip install -e {place} && pytest {place}")
