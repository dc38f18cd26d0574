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
    """One way in for foreign files."""

    name: str
    make: Callable[[Path], object]  # makes the sound inputs, each in a sub-folder of the folder it is given
    read: Callable[[Path], object]  # reads an input, given its folder, as the commands do
    # Makes checksums inside an input agree with it again, so that what they guard is reached; used on two of three.
    mend: Callable[[Files], Files] | None = None
    closed: bool = False  # whether sound inputs are refused too

    def sound_inputs(self, scratch: Path) -> Sequence[Files]:
        """Make the sound inputs in an empty folder."""
        scratch.mkdir()
        self.make(scratch)
        return [
            {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
            for folder in sorted(path for path in scratch.iterdir() if path.is_dir())
        ]

    def hostile_input(self, sound: Sequence[Files], chance: Chance) -> Files:
        """Return an input that was sound."""
        files = mutate(chance.choice(sound), chance)
        return files if self.mend is None or chance.random() < 0.33 else self.mend(files)


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
