"""A reader under test: sound inputs made by code, and the call that a command would make on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .chance import Chance
from .mutate import Files, Special, mutate


@dataclass(frozen=True)
class Reader:
    """One way in for foreign files.

    Attributes:
        name: What it is called.
        make: Makes the sound inputs, each in a sub-folder of the folder it is given; called once per process.
        read: Reads an input, given its folder, as the commands do.
        rounds: Inputs in the default suite.
        mend: Makes checksums inside an input agree with it again, so that what they guard is reached; used on two of
            three inputs.
        closed: Whether sound inputs are refused too.
    """

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    rounds: int = 100
    mend: Callable[[Files], Files] | None = None
    closed: bool = False


def sound_inputs(reader: Reader, scratch: Path) -> Sequence[Files]:
    """Make the sound inputs of a reader.

    Args:
        reader: The reader.
        scratch: Folder for them; it is emptied.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    reader.make(scratch)
    folders = sorted(path for path in scratch.iterdir() if path.is_dir())
    return [
        {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        for folder in folders
    ]


def hostile_input(reader: Reader, sound: Sequence[Files], seed: int) -> Files:
    """Return input number `seed` of a reader: the same on every machine."""
    chance = Chance(f"{reader.name} {seed}")
    files = mutate(chance.choice(sound), chance)
    return files if reader.mend is None or chance.random() < 0.33 else reader.mend(files)


def lay_out(files: Files, folder: Path) -> None:
    """Write an input into a folder, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, Special):
            path.write_bytes(content)
        elif content == "folder":
            path.mkdir()
        elif content == "pipe":
            os.mkfifo(path)
        else:
            target = content.removeprefix("link ")
            path.symlink_to(path.name if target == "loop" else target)
