"""A model as a folder for the Hugging Face hub: its files, and a card made from the run that trained it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from motionkit import starter
from motionkit.config import HUB_ID
from motionkit.contracts.dataset import called
from motionkit.contracts.open_model import STARTER, open_model
from motionkit.documents import read_json, value_at
from motionkit.errors import MotionkitError
from motionkit.report._facts import flat, origin_of
from motionkit.report._systems import sections_of
from motionkit.runs import TENSORS, TRAINED_ON, OutputFolder, SavedModel, TrainedOn
from motionkit.runs.forms import ModelForm, forms_for
from motionkit.runs.source import Source, read_source
from motionkit.version import __version__
from motionkit.weights import located

CARD, RECORD = "README.md", "export.json"
KIND = "motionkit-hub"

_SECRET = ("run.", "tracking.", "trackers.")
"""Settings that say where things are on the machine of the person who trained."""

_LICENCE = 200  # letters that are shown of the licence in a folder


@dataclass(frozen=True)
class DataNotes:
    """What only its user can say about the data of a model."""

    source: str = ""  # where they come from: words, a link, or the id of a dataset of the hub
    license: str = ""  # identifier of the hub


def write_hub_folder(
    path: str,
    out: Path,
    *,
    control: str = "",
    license: str = "",
    data: DataNotes = DataNotes(),
    overwrite: bool = False,
) -> tuple[str, list[str]]:
    """Write a model and its card into a folder that the hub takes, and that every option for a model takes.

    Nothing in it names a place on this machine.

    Args:
        path: Run, checkpoint, folder of a model, or ``starter``.
        out: Folder to make.
        control: A run of the same command with shuffled rewards, whose changes stand beside; empty for none.
        license: Identifier of the hub, such as ``cc-by-4.0``; empty where none was chosen.
        data: Where the data come from, and their licence.
        overwrite: Replace what an earlier call wrote there.

    Returns:
        What the model is, and the names of the files.

    Raises:
        MotionkitError: There is no model of motionkit's, `control` is no such run, or `out` is in use.
    """
    place = OutputFolder(out, RECORD, KIND, overwrite=overwrite)
    place.claim()
    form, saved = _find(path)
    whole = read_json(saved.document, dict, fix="copy the folder again.")
    document = _without_places(whole)
    if form.refuse is not None:
        form.refuse(path, document)
    run = saved.run
    source = read_source(run) if run is not None and (run / "run.json").is_file() else None
    known = TrainedOn.read(saved.document.parent)
    shuffled = read_source(control) if control else None
    if shuffled is not None and (source is None or not _is_control(shuffled) or not shuffled.report.changes):
        raise MotionkitError(
            f"{control} is no control of {path}.",
            why="a control is a finished run with shuffled rewards, beside a run.",
            fix="train one with --set control.shuffle=true.",
        )
    with place.beside() as part:
        (part / form.document).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(saved.tensors, part / TENSORS)
        if (record := saved.document.parent / TRAINED_ON).is_file():
            shutil.copyfile(record, part / TRAINED_ON)
        text = card(
            form, document, source, known, control=shuffled, license=license, bundled=path == STARTER,
            called=_data_called(whole, source), data=data, licensed=_data_licence(whole),
        )  # fmt: skip
        (part / CARD).write_text(text, encoding="utf-8")
        files = sorted(file.name for file in part.iterdir())
    place.settle(part, {"schema": 1, "to": "hub", "license": license})
    return form.what, files


def hub_files(folder: Path) -> list[str]:
    """Return the names of the files of such a folder, all of which may be sent.

    Raises:
        MotionkitError: `write_hub_folder` did not make it, a file is missing, or something else lies in it.
    """
    record = read_json(folder / RECORD, dict, fix="motionkit export RUN OUT --to hub") if folder.is_dir() else {}
    names = record.get("files")
    if record.get("kind") != KIND or not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        raise MotionkitError(f"{folder} is no folder for the hub.", fix="motionkit export RUN OUT --to hub writes one.")
    there = {
        item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_symlink() or not item.is_dir()
    }
    if more := sorted(there.difference(names)):
        raise MotionkitError(
            f"{folder} holds {more[0]}, which the export did not write.",
            why="only what it wrote is sent: JSON, safetensors and the card.",
            fix="move it elsewhere, or export into another folder.",
        )
    odd = [
        item for item in names if not item.endswith((".json", ".safetensors", ".md")) or (folder / item).is_symlink()
    ]
    if odd or set(names) - there:
        raise MotionkitError(
            f"{folder} is damaged: {min([*odd, *set(names).difference(there)])}.", fix="export the model again."
        )
    return sorted(item for item in names if item != RECORD)


def _find(path: str) -> tuple[ModelForm, SavedModel]:
    folder = starter.weights_path(starter.POLICY) if path == STARTER else located(path)
    for form in forms_for(folder):
        if (saved := form.find(folder)) is not None:
            return form, saved
    raise MotionkitError(
        f"{open_model(path).describe()}; it cannot be exported to hub.",
        fix="give a run, a checkpoint or a folder of a model that motionkit trained.",
    )


def _without_places(value: Any) -> Any:
    """Return a document whose texts name no folder of this machine: absolute paths become empty."""
    if isinstance(value, Mapping):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    return "" if isinstance(value, str) and _is_place(value) else value


def _is_place(text: str) -> bool:
    return text.startswith("~") or PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()


def card(
    form: ModelForm,
    document: Mapping[str, Any],
    source: Source | None,
    known: TrainedOn,
    *,
    control: Source | None = None,
    license: str = "",
    bundled: bool = False,
    called: str = "",
    data: DataNotes = DataNotes(),
    licensed: str = "",
) -> str:
    """Return a model card in the hub's form: metadata, then Markdown.

    Args:
        form: What the model is.
        document: Its description.
        source: The run that made it; None where that is not known.
        known: What it was trained on.
        control: A run of the same command with shuffled rewards, or None.
        license: Identifier of its licence; empty where none was chosen.
        bundled: Whether it is the starter's, which is under motionkit's licence.
        called: What its data are called; empty where that is not known.
        data: What the user says of them.
        licensed: First line of the licence in their folder; empty where none lies there.
    """
    license = license or ("mit" if bundled else "")
    parts = [
        _metadata(form, license, data.source),
        f"# {_title(form, source)}\n\nThis is {form.what}, {_made(source, bundled)}.",
        _how_to_load(form, _caption(source, called)),
        _data(called, data, known, licensed),
        *(
            _result(source, control)
            if source is not None
            else ["## Held-out results\n\nThe run that made it is not here."]
        ),
        _blind(form, source),
        _limits(source),
        _settings(document, source),
        _licence(license),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _metadata(form: ModelForm, license: str, data: str) -> str:
    tags = ["human-motion", "reinforcement-learning", *form.tags]
    lines = ["library_name: motionkit", f"license: {license or 'other'}", "tags:", *(f"- {tag}" for tag in tags)]
    # An owner with a dot is a place on the web, as in mocap.cs.cmu.edu/search.
    lines += ["datasets:", f"- {data}"] if HUB_ID.fullmatch(data) and "." not in data.partition("/")[0] else []
    return "\n".join(["---", *lines, "---"])


def _title(form: ModelForm, source: Source | None) -> str:
    words = form.what.split(" ", 1)[1] if form.what.startswith(("a ", "an ")) else form.what
    return words[:1].upper() + words[1:] + (f" ({_name(source.name)})" if source is not None else "")


def _made(source: Source | None, bundled: bool) -> str:
    if source is None:
        return "the one that motionkit brings" if bundled else "saved by motionkit"
    info = source.info
    steps = f", {source.steps:,} steps" if source.steps else ""
    state = "" if info.status == "done" else f"; its run is {info.status}"
    return f"made by `motionkit {info.command}` (motionkit {__version__}{steps}{state})"


def _how_to_load(form: ModelForm, caption: str) -> str:
    asks = "TEXT" in form.use and not caption
    text = " TEXT is a caption like those that it was trained on." if asks else ""
    typed = json.dumps(caption, ensure_ascii=False) if caption else '"TEXT"'
    python = f"\n\n```python\n{form.python.replace('TEXT', typed)}```" if form.python else ""
    use = form.use.replace("TEXT", shlex.quote(caption) if caption else '"TEXT"')
    return (
        f"## How to load it\n\nFOLDER is this folder, or its id on the hub.{text} The files are JSON and safetensors; "
        f"nothing in them is executed.\n\n```bash\n{use}\n```{python}"
    )


def _caption(source: Source | None, called: str) -> str:
    """Return a caption that a policy knows: of its run's held-out motions, or the starter's; empty if there is none."""
    known = [text for part in sections_of(source) for text in part.texts(source)] if source is not None else []
    for text in known:
        if text.isprintable() and "`" not in text:
            return text
    return starter.EXAMPLE if called == STARTER else ""


def _data_called(document: Mapping[str, Any], source: Source | None) -> str:
    """Return what people call the data of a model, by its description or its run; empty if neither says it."""
    config = source.info.config if source is not None else {}
    nameless = ""
    for record in (document.get("trained_on"), config.get("dataset")):
        if isinstance(record, Mapping) and isinstance(name := record.get("name"), str) and name:
            if (words := called(name, record)) != name or name == STARTER:
                return words
            layout = f"a folder in the layout {name}, whose name is not recorded"
            nameless = nameless or (layout if {"root", "path"} & {*record} else name)
    if nameless:
        return nameless
    given = config.get("data")
    places = given.get("path") if isinstance(given, Mapping) else given
    return ", ".join(Path(str(place)).name for place in places) if isinstance(places, (list, tuple)) else ""


def _data_licence(document: Mapping[str, Any]) -> str:
    """Return the licence that lay in the folder of a model's data, by its description; empty if there was none."""
    said = value_at(document, "trained_on", "licence")
    return said[:_LICENCE] if isinstance(said, str) else ""


def _data(called: str, given: DataNotes, known: TrainedOn, licensed: str = "") -> str:
    if called == STARTER:
        lines = [
            "- Data set: the starter pack of motionkit. Its motions are computed by code; no captured data is in it."
        ]
    else:
        lines = [f"- Data set: {_name(called)}." if called else "- The data set is not recorded."]
        if given.source:
            lines.append(f"- Source, by who published it: {_said(given.source)}.")
        if given.license:
            lines.append(f"- Licence of the data, by who published it: `{given.license}`.")
        if licensed:
            lines.append(f"- Licence of the data, by the file in their folder: {_said(licensed)}.")
        if not given.source or not (given.license or licensed):
            unsaid = [] if given.source else ["where they come from"]
            unsaid += [] if given.license or licensed else ["what their licence is"]
            lines.append(f"- Who published it has not said {' and '.join(unsaid)}.")
    if known.items:
        whole = "" if known.complete else " That is not all: some of it is not known."
        lines.append(
            f"- {len(known.items):,} clips, episodes or pictures, by fingerprint in `{TRAINED_ON}`: evaluations of "
            f"motionkit leave them out.{whole}"
        )
    elif known.complete:
        lines.append("- They are made by code, so an evaluation has nothing to leave out.")
    else:
        lines.append("- Which of them it was trained on is not recorded, so an evaluation cannot leave them out.")
    return "## Data\n\n" + "\n".join(lines)


def _result(source: Source, control: Source | None) -> Iterator[str]:
    tables = source.info.tables
    if not tables:
        yield f"## Held-out results\n\nNone: the run is {source.info.status}."
        return
    sentence = source.report.sentence
    lines = ["## Held-out results", *([_said(sentence)] if sentence else [])]
    if any("before" in item["columns"] for item in tables):
        lines.append(
            "Before and after are measured with the same prompts and noise. What was before, reference clips, and a "
            "judge that is never trained on are the controls."
        )
    if _is_control(source):
        lines.append("**This run is a negative control: its rewards were shuffled.**")
    yield "\n\n".join(lines)
    for item in tables:
        yield _table(str(item.get("title", "")), item["columns"], item["rows"])
    if control is not None:
        others = {row.name: row for row in control.report.changes}
        rows = [
            [row.label, row.text(row.delta, sign=True), row.text(others[row.name].delta, sign=True)]
            for row in source.report.changes
            if row.name in others
        ]
        yield _table(
            "Beside it a negative control, whose rewards were shuffled among the samples: what it gained is chance",
            ["change of", "this run", "control"], rows,
        )  # fmt: skip


def _is_control(source: Source) -> bool:
    return value_at(source.info.config, "control", "shuffle") is True


def _blind(form: ModelForm, source: Source | None) -> str:
    unseen = [text for part in sections_of(source) for text in part.unseen(source)] if source is not None else []
    lines = [f"- {_said(text)}." for text in unseen]
    return "## What its reward does not see\n\n" + "\n".join(lines or [form.blind])


def _limits(source: Source | None) -> str:
    lines = []
    if source is not None:
        worse = [
            f"{row.label} ({row.text(row.before)} to {row.text(row.after)})"
            for row in source.report.changes
            if row.tone == "bad"
        ]
        lines += [f"- Worse than before: {', '.join(worse)}."] if worse else []
        warnings = [text for text in source.warnings if not text.startswith(("stopping after", "interrupted at"))]
        lines += [f"- {_said(_plain(text))}" for text in warnings[:10]]
    lines += [
        "- It knows what its data show; other bodies, actions and pictures were not tried.",
        "- The figures are those of one run. People were not asked.",
    ]
    return "## Limits\n\n" + "\n".join(lines)


def _plain(text: str) -> str:
    """Return a warning without folders of this machine."""
    return re.sub(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\][^\s'\"]+", lambda match: Path(match[0]).name or "...", text)


def _said(text: str) -> str:
    """Return a text for Markdown in which no tag, link or picture of somebody's begins, on one line."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(text.split())).replace("](", "]\\(")


def _name(text: str) -> str:
    """Return the name of a folder or a run, which may hold any sign, for Markdown."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _settings(document: Mapping[str, Any], source: Source | None) -> str:
    if source is None or source.info.record is None:
        return ""
    record = source.info.record
    rows = []
    for key, value in flat(source.info.config):
        if origin_of(record.origins, key) != "default" and not key.startswith(_SECRET):
            rows.append([f"`{key}`", _value(value)])
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items() if name != "platform")
    return (
        "## Settings\n\n"
        + (_table("", ["setting", "value"], rows) if rows else "Every setting had its default.")
        + f"\n\nSeed {record.seed}, device {record.device}; {versions}."
    )


def _value(value: object) -> str:
    items = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(Path(item).name if isinstance(item, str) and _is_place(item) else str(item) for item in items)


def _licence(license: str) -> str:
    if license:
        return f"## Licence\n\n`{license}`, chosen by who published it. The licence of the data may ask for more."
    return "## Licence\n\nNone was chosen; without one nobody may use it. The licence of the data may ask for more."


def _table(title: str, columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(_said(str(cell)).replace("|", "\\|") for cell in cells) + " |"

    head = [line(columns), line(["---"] * len(columns)), *(line(row) for row in rows)]
    return (f"{_said(_plain(title))}\n\n" if title else "") + "\n".join(head)
