"""A Blender that the user has: which one, and running it in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from motionkit.documents import parse_json
from motionkit.errors import MotionkitError

VARIABLE = "MOTIONKIT_BLENDER"
"""Environment variable with the path, for calls that name none."""

SCRIPT = Path(__file__).with_name("inside.py")
"""What Blender runs."""

OLDEST = (4, 2)
"""The version that was checked; the exporter of 3.4 does not join animations."""

_PROBE = 60.0
"""Seconds in which a program must say what it is."""

_LONGEST = 300.0
"""Seconds that Blender may take for one file; a character with its pictures takes some ten."""

_POLL = 0.05

_HAS_BPY = (
    "import sys; sys.path[:] = filter(None, sys.path); "  # without the current folder, which may hold any bpy.py
    "import bpy, os; print('bpy', bpy.app.version_string, flush=True); os._exit(0)"
)

_GET = "install it from blender.org, or pip install bpy into a Python of its own (not this one)"


@dataclass(frozen=True)
class Blender:
    """A Blender that answered when it was asked for its version."""

    path: str  # The executable
    version: str  # Such as 4.2.0
    python: bool = False  # It is a Python with the module bpy

    def command(self, folder: Path) -> list[str]:
        """Return the command that does the jobs of a folder; it loads no settings, add-ons or scripts of the user."""
        if self.python:
            return [self.path, "-E", str(SCRIPT), "--", str(folder)]
        plain = ["--background", "--factory-startup", "--disable-autoexec", "--python-exit-code", "3"]
        return [self.path, *plain, "--python", str(SCRIPT), "--", str(folder)]


@dataclass(frozen=True)
class Job:
    """A file to read and the file to make of it; see `motionkit_fbx.inside`."""

    read: Path
    write: Path
    meshes: bool = False  # Of an FBX file: whether its meshes come with the skeleton
    fps: float = 0.0  # Of a GLB file: the rate of its frames


def find_blender(given: str = "") -> Blender:
    """Return the Blender that is to be used.

    Args:
        given: Path or name of an executable, or of a Python with bpy; empty for the one that `VARIABLE` names.

    Raises:
        MotionkitError: None is named, there is none at that place, or it is something else.
    """
    name = given or os.environ.get(VARIABLE, "")
    if not name:
        raise MotionkitError(
            "FBX files are read and written by Blender, and none is named.",
            fix=f"--blender PATH (convert, view, profile, generate), or {VARIABLE}=PATH: a Blender or a Python with "
            f"bpy. If you have none, {_GET}.",
        )
    if Path(name).is_dir():
        raise MotionkitError(
            f"--blender {name} is a folder.",
            fix="give the program in it: blender, Contents/MacOS/Blender, or bin/python of an environment with bpy.",
        )
    program = shutil.which(name)
    if program is None:
        why = "it cannot be executed." if Path(name).exists() else "there is no such program."
        raise MotionkitError(f"--blender {name} cannot be started.", why=why, fix=f"check the path; or {_GET}.")
    return _asked(str(Path(program).absolute()), name)


def require_blender(settings: Mapping[str, str]) -> None:
    """Raise MotionkitError if there is no Blender; see `find_blender`."""
    find_blender(settings.get("blender", ""))


@lru_cache
def _asked(path: str, name: str) -> Blender:
    """Ask a program for its version."""
    reply = _said([path, "--version"], name)
    kind, _, version = reply.partition(" ")
    if kind == "Blender":
        return _new_enough(Blender(path, version), name)
    if kind != "Python":
        raise MotionkitError(
            f"--blender {name} is not a Blender.",
            why=f"it answers --version with {reply[:80]!r}.",
            fix="give a Blender, or a Python with bpy.",
        )
    answer = _said([path, "-E", "-c", _HAS_BPY], name)
    if not answer.startswith("bpy "):
        raise MotionkitError(
            f"--blender {name} is a Python without bpy.",
            why=answer[:200],
            fix=f"{name} -m pip install bpy 'numpy<2' (bpy 4.2 is for Python 3.11), or give a Blender.",
        )
    return _new_enough(Blender(path, answer.removeprefix("bpy "), python=True), name)


def _new_enough(blender: Blender, name: str) -> Blender:
    """Refuse a Blender whose GLB exporter lacks what is asked of it."""
    match = re.match(r"(\d+)\.(\d+)", blender.version)
    if match is None or (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise MotionkitError(
            f"--blender {name} is Blender {blender.version}.", why=f"{oldest} and later are used.", fix=f"{_GET}."
        )
    return blender


def _said(command: Sequence[str], name: str) -> str:
    """Return what a program says: the first line, the last one if it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE, check=False)
    except subprocess.TimeoutExpired as error:
        raise MotionkitError(
            f"--blender {name} does not answer.", why=f"it was asked for its version {_PROBE:.0f} s ago."
        ) from error
    except OSError as error:
        raise MotionkitError(f"--blender {name} cannot be started.", why=f"{error.strerror or error}.") from error
    lines = _lines(done.stdout + done.stderr)
    return lines[-1 if done.returncode else 0] if lines else ""


def _lines(data: bytes) -> list[str]:
    return [line for line in (" ".join(line.split()) for line in data.decode(errors="replace").splitlines()) if line]


def run_jobs(blender: Blender, jobs: Sequence[Job], folder: Path) -> list[str]:
    """Do jobs, one after the other.

    A file at which Blender dies or hangs does not stop the others: a new one goes on with the next.

    Args:
        blender: What does them.
        jobs: The jobs.
        folder: An empty folder for the files by which the processes communicate.

    Returns:
        For each job what went wrong; empty where the file was made.
    """
    errors: list[str] = []
    while len(errors) < len(jobs):
        part = folder / str(len(errors))
        part.mkdir()
        errors += _run(blender, jobs[len(errors) :], part)
    return [
        error or ("" if job.write.is_file() else f"Blender {blender.version} said nothing and wrote nothing.")
        for job, error in zip(jobs, errors, strict=True)
    ]


def _run(blender: Blender, jobs: Sequence[Job], folder: Path) -> list[str]:
    """Start one Blender and return what became of the jobs until it ended; at least of the first."""
    tables = [
        {"read": str(job.read.absolute()), "write": str(job.write.absolute()), "meshes": job.meshes, "fps": job.fps}
        for job in jobs
    ]
    (folder / "jobs.json").write_text(json.dumps(tables), encoding="utf-8")
    log = folder / "log.txt"
    places = dict.fromkeys(("BLENDER_USER_RESOURCES", "TMPDIR", "TMP", "TEMP"), str(folder))
    environment = {**os.environ, **places}  # none of the user's add-ons and settings, and nothing left in /tmp
    late = False
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                blender.command(folder), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return [f"{blender.path} cannot be started: {error.strerror or error}."] * len(jobs)
        try:
            done, since = 0, time.monotonic()
            while process.poll() is None:
                if (now := len(_answers(folder))) > done:
                    done, since = now, time.monotonic()
                if done < len(jobs) and time.monotonic() - since > _LONGEST:
                    late = True
                    break
                time.sleep(_POLL)
        finally:
            _end(process)
    answers = [_error(answer) for answer in _answers(folder)][: len(jobs)]
    if len(answers) < len(jobs):
        answers.append(_what_happened(blender, process.returncode, log, late))
    return answers


def _what_happened(blender: Blender, code: int, log: Path, late: bool) -> str:
    """Return why Blender ended without an answer."""
    if late:
        return f"Blender {blender.version} was stopped: it took more than {_LONGEST:.0f} s for this file."
    lines = _lines(log.read_bytes()[-10_000:])
    last = f": {lines[-1][:200]}" if lines else ""
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"Blender {blender.version} ended with {how}{last}"


def _answers(folder: Path) -> list[Any]:
    """Return the whole lines of the answers."""
    file = folder / "answers.jsonl"
    with suppress(OSError, ValueError, MotionkitError):
        return [parse_json(line, str(file), object) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    return []


def _error(answer: Any) -> str:
    text = answer.get("error", "") if isinstance(answer, Mapping) else "an answer that is none"
    return " ".join(str(text).split())[:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Blender, and what it started, if it still runs."""
    if process.poll() is None:
        with suppress(OSError):
            # Windows has no process groups.
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    process.wait()
