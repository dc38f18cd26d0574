"""run.json: origin and outcome of a run. Only this module reads and validates it.

`RunRecord` is its content. Below it is what a record notes of the environment: time, versions of packages, and the
commit of the git work tree.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import secrets
import socket
import stat
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import scan
from motionkit.runs.atomic import is_inside, write_json
from motionkit.tracking import finite

NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # so that opening a pipe does not wait; Windows has no such flag
RECORD = "run.json"
"""Name of the file."""

KIND: Literal["motionkit-run"] = "motionkit-run"
"""Value of ``kind``, which marks a folder as a run."""

Status = Literal["running", "done", "failed", "interrupted"]
Step = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_PACKAGES = ("motionkit", "torch", "numpy", "safetensors", "pydantic", "peft", "transformers", "accelerate")
"""Packages that numerical results depend on."""

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""A commit."""

_LIMIT = 16 * 2**20
"""Most bytes read of a file of ``.git``; enough for packed-refs with 200,000 names."""


def _plain(name: str) -> str:
    if name in ("", "..") or Path(name).name != name or "\0" in name:
        raise ValueError("must be a plain name in the run folder")
    return name


class _Document(BaseModel):
    """Validates the entries that motionkit uses strictly, and keeps unknown entries."""

    model_config = ConfigDict(extra="allow", strict=True, validate_assignment=True, populate_by_name=True)


class Attempt(_Document):
    """One process that executed a part of a run."""

    argv: list[str] = []  # The command line
    start: str = ""  # When it began, UTC, ISO 8601
    start_step: Step = 0  # Steps completed before it
    host: str = ""  # Name of the machine
    pid: int = 0  # Its process id
    cwd: str = ""  # The folder it was started in
    status: Status = "running"  # ``running`` until it has recorded its end, also when it was killed
    end: str | None = None  # When it ended; None when it was killed
    end_step: Step | None = None  # Steps completed at its end
    exit_code: int | None = None  # Its exit code


class RunRecord(_Document):
    """The content of run.json; entries of trainers (`Run.annotate`) are kept beside these fields."""

    schema_version: Literal[1] = Field(1, alias="schema")  # Version of this layout, ``schema`` in the file
    kind: Literal["motionkit-run"]  # ``motionkit-run``, which marks the folder as a run
    id: str = Field(pattern=r"^[0-9A-Za-z]{1,64}$")  # Unique letters and digits, the same for all attempts
    command: str  # The command that made it, such as ``pretrain mdm``
    created: str  # When it was first started, UTC, ISO 8601
    artifacts: list[Annotated[str, AfterValidator(_plain)]] = []  # Names in the run folder that the trainer made
    attempts: list[Attempt] = []  # All attempts, oldest first
    argv: list[str] = []  # The last command line
    seed: int | None = None  # The seed
    device: str | None = None  # The device, as asked for or in words
    status: Status = "running"  # How the last attempt ended, or ``running``
    processes: Annotated[int, Field(ge=1)] | None = None  # Processes that trained together in the last attempt
    # Library of float32 matrix products on the CPU, ``onednn`` or ``default``.
    cpu_matmul: Literal["onednn", "default"] | None = None
    versions: dict[str, str] = {}  # Of Python and the packages that decide numbers, by name; and the platform
    plugins: dict[str, str] = {}  # Versions of the packages that bring plugins, by name
    git: dict[str, Any] | None = None  # ``commit`` of the work tree the command was started in; None outside of one
    executable: str = ""  # The Python interpreter
    origins: dict[str, str] = {}  # Where each setting came from
    inputs: dict[str, str] = {}  # Fingerprints of the files that settings name, by dotted setting
    steps: Step = 0  # Steps completed when the last attempt ended
    seconds: Seconds = 0.0  # Time of all attempts
    cpu_seconds: Seconds = 0.0  # Processor time of all attempts
    exit_code: int | None = None  # Of the last attempt
    summary: dict[str, Any] | None = None  # The ``--json`` document of the last attempt that ended
    # What the console showed of the result at the end: ``title``, ``columns``, ``rows`` each.
    tables: list[dict[str, Any]] = []
    error: str | None = None  # Why the last attempt failed

    @classmethod
    def new(cls, command: str, inputs: Mapping[str, str]) -> Self:
        """Return the record of a new run."""
        return cls(
            schema_version=1,
            kind=KIND,
            id=secrets.token_hex(8),
            command=command,
            created=now(),
            artifacts=[],
            attempts=[],
            inputs=dict(inputs),
        )

    def begin(
        self, snapshot: Mapping[str, Any], argv: Sequence[str], origins: Mapping[str, str] | None, step: int
    ) -> None:
        """Note an attempt that starts after `step`."""
        for stale in ("summary", "error", "exit_code"):
            setattr(self, stale, None)
        commit = commit_of(Path.cwd())
        self.annotate(
            argv=list(argv),
            seed=snapshot.get("seed"),
            device=snapshot.get("device"),
            status="running",
            versions=versions(),
            plugins=plugin_distributions(),
            git=None if commit is None else {"commit": commit},
            executable=sys.executable,
            origins=dict(origins or {}),
        )
        self.attempts.append(
            Attempt(
                argv=list(argv),
                start=now(),
                start_step=step,
                host=socket.gethostname(),
                pid=os.getpid(),
                cwd=str(Path.cwd()),
                status="running",
            )
        )

    def annotate(self, **facts: object) -> None:
        """Set entries, known and other ones.

        Raises:
            ValidationError: A known entry got a value of another type.
        """
        for name, value in facts.items():
            setattr(self, name, value)

    def end(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Note how the last attempt ended."""
        self.annotate(**{key: summary[key] for key in ("status", "steps", "seconds", "cpu_seconds")})
        self.annotate(exit_code=exit_code, summary=dict(summary))
        last = self.attempts[-1]
        last.status, last.exit_code, last.end, last.end_step = self.status, exit_code, now(), self.steps

    def write(self, folder: Path) -> None:
        """Write run.json into the run folder, aside first."""
        content = self.model_dump(by_alias=True, exclude_none=True)
        write_json(folder / RECORD, finite(content))


def read_record(folder: Path) -> RunRecord | None:
    """Return the record of a run folder, or None when the folder is not a run of motionkit."""
    if not os.path.lexists(folder / RECORD):
        return None
    try:
        document = read_json(folder / RECORD, dict, surrogates=True)
        return RunRecord.model_validate(document) if document.get("kind") == KIND else None
    except MotionkitError as error:
        raise damaged(folder, error.sentence()) from error
    except ValidationError as error:
        raise damaged(folder, f"{RECORD}: {first_problem(error)}") from error


def damaged(folder: Path, why: str) -> MotionkitError:
    """Return the error for a run folder that cannot be read."""
    return MotionkitError(
        f"the run {folder} is damaged.", why=why, fix="mend that file, or move the folder away and start again"
    )


def first_problem(error: ValidationError) -> str:
    """Return pydantic's first problem, with its location."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'its content'}: {first['msg']}"


def now() -> str:
    """Return the time in UTC, ISO 8601, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that numerical results depend on."""
    by_name = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_name


def plugin_distributions() -> dict[str, str]:
    """Return the packages with motionkit plugins, and their versions."""
    return dict(sorted({entry.distribution: entry.version for entry in scan().entries}.items()))


def changed_versions(before: Mapping[str, str]) -> list[str]:
    """Return ``torch 2.12.0, now 2.13.0`` for each package of `before` whose version has changed.

    Packages that are missing now, or were missing before, are left out: results do not depend on them.
    """
    here = {**plugin_distributions(), **versions()}
    return [
        f"{name} {old}, now {here[name]}"
        for name, old in before.items()
        if name != "platform" and here.get(name, old) != old
    ]


def commit_of(folder: Path) -> str | None:
    """Return the checked-out commit of the git work tree around `folder`; None without one that can be read.

    It is read from the small text files of ``.git``. No git command is called: a ``.git`` folder that came with an
    archive may name programs (``core.fsmonitor``, filters) that git starts.
    """
    for place in (folder, *folder.parents):
        if os.path.lexists(git := place / ".git"):
            return _head(_linked(git, git, "gitdir: "))
    return None


def _head(git: Path) -> str | None:
    head = _text(git / "HEAD").strip()
    name = head.removeprefix("ref: ")
    if name == head or not name.startswith("refs/") or not is_inside(name):
        return _as_hash(head)
    # A work tree added by `git worktree add` shares most of its refs with the first one.
    common = _linked(git, git / "commondir")
    packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _text(common / "packed-refs"), re.MULTILINE)
    texts = [_text(git / name), _text(common / name), packed[1] if packed else ""]
    return next(filter(None, (_as_hash(text.strip()) for text in texts)), None)


def _linked(folder: Path, file: Path, prefix: str = "") -> Path:
    """Return the folder that a text file names, relative to the file; `folder` if there is no such file."""
    text = _text(file).rstrip("\r\n")
    named = text.startswith(prefix) and "\0" not in text and text.removeprefix(prefix)
    return file.parent / named if named else folder


def _as_hash(text: str) -> str | None:
    return text if _HASH.fullmatch(text) else None


def _text(path: Path) -> str:
    """Return the text of a regular file, at most `_LIMIT` bytes of it; empty if it cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | NONBLOCK)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_LIMIT).decode(errors="replace") if regular else ""
    except (OSError, ValueError):
        return ""
