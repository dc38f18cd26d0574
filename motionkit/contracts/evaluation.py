"""What every protocol of `motionkit eval` shares: the default one of a model, the folder, the note on test splits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.contracts.console import Console
from motionkit.contracts.open_model import STARTER, gives_of_model, open_model
from motionkit.contracts.protocol import Result
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import RunInfo, disk_errors, note_test_split, write_bytes_atomic
from motionkit.runs.forms import model_forms
from motionkit.tracking import finite
from motionkit.weights import located

RECORD, PAGE = "evaluation.json", "evaluation.html"
KIND = "motionkit-evaluation"


def protocol_of(path: str, names: Sequence[str]) -> str:
    """Return the built-in protocol for a model.

    Args:
        path: The model, given in place of a protocol's name.
        names: Names of the protocols, for messages.
    """
    if path.partition(":")[0] != STARTER and not located(path).exists():
        raise MotionkitError(
            f"'motionkit eval {path}': that is neither a protocol nor a model.",
            fix=f"{', '.join(names)}; or a run, a folder or a file.",
        )
    usual = {form.plugin: form.protocol for form in model_forms() if form.plugin and form.protocol}
    if path.startswith(f"{STARTER}:"):  # a network of the pack that scores, as options of rewards name it
        return next(protocol for (kind, _), protocol in usual.items() if kind == "rewards")
    model = open_model(path)
    first = next(iter(plugins.KINDS["policies"].gives))
    return (
        usual.get((model.kind, model.plugin))
        or protocol_reading(gives_of_model(model))
        or protocol_reading(first)  # which says what it cannot measure
    )


def protocol_reading(gives: str) -> str:
    """Return the first built-in protocol that measures models which give this; an empty text if there is none.

    Args:
        gives: What the plugin of a model gives (`motionkit.contracts.open_model.gives_of_model`).
    """
    names = [entry.name for entry in plugins.available("protocols") if entry.builtin]
    fitting = (name for name in names if plugins.reads_of("protocols", plugins.get("protocols", name)) == gives)
    return next(fitting, "")


def claim(path: Path, protocol: str, *, overwrite: bool) -> None:
    """Refuse a folder whose content an evaluation may not replace; writes nothing.

    Args:
        path: The folder.
        protocol: Name of the protocol, such as ``mpl``: an evaluation by another one is not replaced.
        overwrite: Whether an evaluation by the same protocol may be replaced.
    """
    record = find_record(path)
    if record is None:
        return
    if record.get("protocol") != protocol:
        raise _something_else(path)
    if not overwrite:
        raise MotionkitError(f"{path} holds a finished evaluation.", fix="choose another --out, or --overwrite it.")


def find_record(path: Path, *, besides: Set[str] = frozenset()) -> dict[str, Any] | None:
    """Return the record of the evaluation in a folder; None if the folder holds only files named in `besides`."""
    if path.exists() and not path.is_dir():
        raise MotionkitError(f"--out {path} is a file.", fix="choose another --out.")
    if not path.is_dir() or not {file.name for file in path.iterdir()} - besides:
        return None
    file = path / RECORD
    record = read_json(file, dict, fix="choose another --out.") if file.is_file() else {}
    if record.get("kind") != KIND:
        raise _something_else(path)
    return record


def _something_else(path: Path) -> MotionkitError:
    return MotionkitError(f"{path} exists and holds something else.", fix="choose another --out.")


def write_evaluation(
    folder: Path,
    protocol: str,
    result: Result,
    page: Callable[[], str],
    *,
    beside: Callable[[], None] | None = None,
    name: str = PAGE,
    said: str = "",
) -> Result:
    """Write an evaluation into a folder that `claim` has allowed: ``evaluation.json``, other files, then the page.

    Args:
        folder: The folder, which is created.
        protocol: Name of the protocol.
        result: The result, whose document is written.
        page: Returns the page; called after the other files are written.
        beside: Writes the other files.
        name: Name of the page.
        said: What stands before the page in the last line.

    Returns:
        The result, which names the page in its document and in its last line.

    Raises:
        MotionkitError: Something cannot be written (exit code 1).
    """
    record = {"kind": KIND, "schema": 1, "protocol": protocol, "result": finite(result.document)}
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with disk_errors("write the evaluation", folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(folder / RECORD, text.encode(errors="backslashreplace"))
        if beside is not None:
            beside()
        write_bytes_atomic(folder / name, page().encode(errors="replace"))
    place = str(folder / name)
    return replace(
        result, document={**result.document, "page": place}, closing=[*result.closing, f"{said}page: {place}"]
    )


def tell_test_split(split: str, made: Iterable[RunInfo | None], console: Console) -> None:
    """Record in runs that their test split is opened, and report it; nothing is done for other splits.

    Args:
        split: The split to measure on.
        made: The run of each model, None if it is not from a run.
        console: Prints the report, and holds the command to record.
    """
    for run in made if split == "test" else ():
        if run is None:
            continue
        if problem := note_test_split(run.directory, console.typed):
            console.warn(f"the test split is opened, which could not be noted in the run: {problem}")
        else:
            console.say(f"the test split is opened; noted in {run.directory / 'run.json'}")
