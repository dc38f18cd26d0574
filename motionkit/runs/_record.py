"""run.json: origin and outcome of a run. Only this module reads and validates it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import secrets
import socket
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import scan
from motionkit.runs.atomic import is_inside, is_temporary, sweep, temporary, write_json
from motionkit.tracking import finite

# Reads the commit of a git work tree from the files of its `.git`.
#
# No git command is called: a `.git` folder that came with an archive may name programs (`core.fsmonitor`, filters)
# that git starts. This module only reads a few small text files.

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIMIT = 16 * 2**20
"""Most bytes read of a file; enough for packed-refs with 200,000 names."""


def commit_of(folder: Path) -> str | None:
    """Return the checked-out commit of the work tree around `folder`; None without one that can be read."""
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
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_LIMIT).decode(errors="replace") if regular else ""
    except (OSError, ValueError):
        return ""


# Records the environment of a run: time, versions, plugin packages; and lists changed versions.

_PACKAGES = ("motionkit", "torch", "numpy", "safetensors", "pydantic", "peft", "transformers", "accelerate")


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


RECORD = "run.json"
KIND: Literal["motionkit-run"] = "motionkit-run"
Status = Literal["running", "done", "failed", "interrupted"]
Step = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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


# Locks a folder for one process, and checks that the locked folder is still in its place.

LOCK = ".lock"
"""Name of the lock file."""


def hold(folder: Path) -> IO[str]:
    """Lock the folder for this process until the returned file is closed; the system unlocks it when a process dies.

    Raises:
        MotionkitError: Another process holds the folder.
        OSError: The lock cannot be opened for writing.
    """
    file = os.fdopen(_open(folder, os.O_RDWR | os.O_CREAT), "w", encoding="utf-8")
    if not _lock(file.fileno()):
        file.close()
        raise MotionkitError(
            f"{folder} is in use by another process.",
            why="two processes would mix their results.",
            fix="wait or stop it",
        )
    return file


def is_held(folder: Path) -> bool:
    """Return whether a process holds the folder now; the folder need not be writable."""
    # NFS grants an exclusive lock only to a file that is open for writing.
    flags = os.O_RDWR if os.access(folder / LOCK, os.W_OK) else os.O_RDONLY
    try:
        descriptor = _open(folder, flags)
    except OSError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def still_holds(lock: IO[str], folder: Path) -> bool:
    """Return whether `lock`, from `hold`, is still the lock file in `folder`; False after the folder was emptied."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat())
    except OSError:
        return False


def _open(folder: Path, flags: int) -> int:
    # A link is refused and a pipe does not block: the folder may come from another user.
    return os.open(folder / LOCK, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def _lock(descriptor: int) -> bool:
    """Try to lock an open file; True also if a network disk has no locks."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:
        return True


PAGE = "report.html"
"""Name of a run's page in its folder."""

TAGS = "tags.json"
"""File of a run's tags, a list of words."""

_OWN = ("config.json", "metrics.jsonl", "log.txt", "checkpoints", "trackers", PAGE, TAGS)
"""Names in every run folder, besides run.json."""

_UNLISTED = ("policy", "tmr")
"""Artefacts of trainers in older runs, whose records do not list them."""


def folder_of(command: str, root: str | Path, out: str | Path | None, name: str | None) -> Path:
    """Return the folder of a new run: `out` itself, else ``root/<command>/<name or time-id>``."""
    if out is not None and name is not None:
        raise MotionkitError("--out and --name were both given.", why="each names the run folder.", fix="keep one")
    if out is not None:
        return Path(out)
    stem = name or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    return Path(root) / folder_name(command) / stem


def folder_name(command: str) -> str:
    """Return the name of the folder of a command's runs: ``pretrain-mdm``."""
    return command.replace(" ", "-").replace(".", "-")


def claim_new(folder: Path, *, overwrite: bool) -> None:
    """Make the folder of a new run, or empty an old run's folder if `overwrite`.

    Only files that motionkit wrote are deleted; other files in an old run's folder stay.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise MotionkitError(f"{folder} is a file.", why="the run needs a folder.", fix="choose another --out")
        if folder.is_dir() and any(path.name != LOCK and not is_temporary(path) for path in folder.iterdir()):
            _refuse_or_clear(folder, overwrite)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MotionkitError(
            f"cannot make the run folder {folder}.", why=str(error), fix="choose another place with --out DIR"
        ) from error


def own_names(
    record: RunRecord | None,  # its record; None if it cannot be read
) -> set[str]:
    """Return the names that motionkit may replace in a run's folder, besides run.json and the lock."""
    return {*_OWN, *((record and record.artifacts) or _UNLISTED)} - {RECORD, LOCK}


def _refuse_or_clear(folder: Path, overwrite: bool) -> None:
    record = read_record(folder)
    if record is None:
        raise MotionkitError(
            f"{folder} exists and is not a motionkit run.",
            why="nothing in it will be touched, with or without --overwrite.",
            fix="choose another place with --out DIR or --name NAME",
        )
    if not overwrite:
        raise MotionkitError(
            f"{folder} already holds a run ({record.command}, {record.status}).",
            fix=f"--resume {folder} continues it, --overwrite replaces it, --name NAME makes another",
        )
    with hold(folder):
        # Moved aside first. The old run.json stays until the new one replaces it: after a kill in between, the folder
        # is still a run's and can be overwritten again.
        aside = temporary(folder / RECORD)
        aside.mkdir()
        for name in own_names(record):
            if os.path.lexists(folder / name):
                (folder / name).rename(aside / name)
        sweep(folder)
