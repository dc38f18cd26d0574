"""A run: one folder, written by one process at a time, in one or more attempts.

`open_run` opens the run of the settings as a `Run`. After these come a run's parts: its log.txt and its signals.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, SupportsFloat

from motionkit.errors import Interrupted, MotionkitError
from motionkit.runs._checkpoint import (
    Checkpoint,
    choose_checkpoint,
    mend,
    newest_checkpoint,
    prune,
    read_checkpoint,
    save_checkpoint,
)
from motionkit.runs._folder import claim_new, folder_of, hold, own_names, still_holds
from motionkit.runs._record import RunRecord, changed_versions
from motionkit.runs._resume import (
    cut_metrics,
    locate,
    refuse_changes,
    refuse_command,
    refuse_links,
    refuse_other_files,
    resume_line,
    same_inputs,
    without_place,
)
from motionkit.runs.atomic import disk_errors, sweep, write_json
from motionkit.runs.words import typed_flags
from motionkit.tracking import (
    JsonlWriter,
    Trackers,
    finite,
    must_be_finite,
    not_finite,
    require_defined,
    require_trackers,
)

if TYPE_CHECKING:
    from torch import Tensor

_logger = logging.getLogger("motionkit.runs")

Listener = Callable[[int, Mapping[str, float]], None]
"""Called with (step, metrics) for every logged line; a progress bar is one."""


class Run:
    """An open run folder. Make one with `create`, `resume` or `open_run`, and use it as a context manager.

    Inside the ``with`` block SIGINT and SIGTERM set `stop_requested`; leaving it records how the run ended.

    Example:
        >>> import torch
        >>> with Run.create("grpo", {}, name="second") as run:
        ...     print(run.save(1, {"policy": {"weight": torch.ones(2)}}, {"cursor": 8}).name)
        step-00000001
    """

    def __init__(
        self,
        directory: Path,
        command: str,
        snapshot: Mapping[str, Any],
        record: RunRecord,
        lock: IO[str],
        checkpoint: Checkpoint | None,
        seconds: float,
    ) -> None:
        self.directory = directory  # the run folder
        self.command = command  # such as ``grpo`` or ``pretrain mdm``
        self.start_step = checkpoint.step if checkpoint else 0  # steps completed before this attempt
        self.listeners: list[Listener] = []  # called for every logged line
        self.beginning: list[Callable[[], None]] = []  # called when the steps of an attempt begin
        self.total_steps: int | None = None  # planned steps, if the trainer has set them; for progress
        self.status = "running"  # then ``done``, ``failed`` or ``interrupted``
        self._record = record
        self._lock = lock
        self._checkpoint = checkpoint
        self._typed = typed_flags(snapshot, command)
        self._keep = _keep(snapshot)
        self._finished = False
        self._not_finite: set[str] = set()  # losses that this attempt has warned of
        self._step = self.start_step
        self._seconds = seconds
        self._cpu_before = record.cpu_seconds
        self._started, self._cpu_started = time.monotonic(), time.process_time()
        self.signals = StopSignals()
        self._log_file = LogFile(directory / "log.txt")
        self._metrics = JsonlWriter(directory / "metrics.jsonl")
        title = f"{command.replace(' ', '-')}/{directory.name}"
        self._trackers = Trackers(snapshot.get("track") or (), directory / "trackers", title, record.id, snapshot)

    @classmethod
    def create(
        cls,
        command: str,
        snapshot: Mapping[str, Any],
        *,
        out: str | Path | None = None,
        name: str | None = None,
        overwrite: bool = False,
        argv: Sequence[str] = (),
        origins: Mapping[str, str] | None = None,
        inputs: Mapping[str, str] | None = None,
        root: str | Path = "runs",
    ) -> Self:
        """Make a new run folder: `out` itself, else ``root/<command>/<name or time-id>``.

        Args:
            command: The command's name; spaces and dots become dashes in the folder.
            snapshot: All settings, JSON-able; ``checkpoint.keep``, ``track``, ``seed``, ``device`` are read here.
            out: The run folder itself.
            name: Last part of the folder.
            overwrite: Replace the files of an older run. A folder that is not a run is never changed.
            argv: The command line, for the record.
            origins: Where each setting came from, for the record.
            inputs: Fingerprints of the files that settings name, by dotted setting; see `same_inputs`.
            root: Parent of all runs.
        """
        require_trackers(snapshot.get("track") or ())
        directory = folder_of(command, root, out, name)
        claim_new(directory, overwrite=overwrite)
        lock = hold(directory)
        sweep(directory)
        return cls._begin(directory, snapshot, RunRecord.new(command, inputs or {}), lock, None, argv, origins, 0.0)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        snapshot: Mapping[str, Any] | None = None,
        *,
        command: str | None = None,
        shape_keys: Sequence[str] = (),
        argv: Sequence[str] = (),
        origins: Mapping[str, str] | None = None,
        inputs: Mapping[str, str] | None = None,
        recorded: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    ) -> Self:
        """Continue a run in its own folder, from its last good checkpoint or from the one that `path` names.

        Args:
            path: A run folder, or one of its ``checkpoints/step-...`` folders.
            snapshot: The new settings; None for those of the run.
            command: The command that must have made the run; None accepts any.
            shape_keys: Settings, or groups, that the checkpoint depends on and that may not differ.
            argv: The command line, for the record.
            origins: Where each setting came from, for the record.
            inputs: Fingerprints of the files that settings name, by dotted setting: a setting may name a new place of
                the same file.
            recorded: Converts the run's recorded settings to their present meaning.
        """
        directory, chosen, record, old = locate(path)
        new = dict(snapshot) if snapshot is not None else old
        require_trackers(new.get("track") or ())
        refuse_command(record, command, directory)
        refuse_changes(recorded(old), new, shape_keys, directory, same_inputs(record, inputs or {}))
        refuse_other_files(record, inputs or {}, new, directory)
        refuse_links(directory, record)
        with ExitStack() as cleanup:
            with disk_errors("continue the run", directory, code=2):
                lock = cleanup.enter_context(hold(directory))
                sweep(directory)
                for name in own_names(record):
                    sweep(directory / name, below=True)
                mend(directory / "checkpoints")
                checkpoint = read_checkpoint(chosen) if chosen else newest_checkpoint(directory / "checkpoints")
                if chosen:
                    choose_checkpoint(chosen)
                if checkpoint:
                    prune(directory / "checkpoints", checkpoint.step, _keep(new))
                seconds = cut_metrics(directory / "metrics.jsonl", checkpoint.step if checkpoint else -1)
            for change in changed_versions({**record.plugins, **record.versions}):
                _logger.warning("%s: the run need not continue with the same bits", change)
            run = cls._begin(directory, new, record, lock, checkpoint, argv, origins, seconds)
            cleanup.pop_all()
        return run

    @classmethod
    def _begin(
        cls,
        directory: Path,
        snapshot: Mapping[str, Any],
        record: RunRecord,
        lock: IO[str],
        checkpoint: Checkpoint | None,
        argv: Sequence[str],
        origins: Mapping[str, str] | None,
        seconds: float,
    ) -> Self:
        with disk_errors("write the run folder", directory):
            record.begin(snapshot, argv, origins, checkpoint.step if checkpoint else 0)
            record.write(directory)
            write_json(directory / "config.json", without_place(snapshot))
            return cls(directory, record.command, snapshot, record, lock, checkpoint, seconds)

    @property
    def stop_requested(self) -> bool:
        """Whether SIGINT or SIGTERM was received: the trainer should finish its step, save and return."""
        return bool(self.signals.received)

    @property
    def exit_code(self) -> int:
        """Exit code of the process: 0 done, 1 failed, 130 or 143 interrupted."""
        if self.status == "interrupted":
            return 128 + (self.signals.received or 2)
        return 1 if self.status == "failed" else 0

    @property
    def resume_command(self) -> str:
        """The command line that continues this run."""
        return f"{resume_line(self.command, self.directory)} {self._typed}".rstrip()

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint that this attempt continues from, or None for a fresh start."""
        return self._checkpoint

    def begin_steps(self, total: int) -> None:
        """Mark the begin of the steps, for progress; `total` includes steps before a resume."""
        self.total_steps = total
        for begin in self.beginning:
            begin()

    def log(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Append one line to metrics.jsonl and send it to trackers and listeners.

        Args:
            step: Steps completed; 0 before training.
            metrics: Values by name; numbers or one-element tensors.

        Raises:
            MotionkitError: A name is not defined, or the disk is full (code 1).
        """
        require_defined(metrics)
        values = {name: float(value) for name, value in metrics.items()}
        self._step = max(self._step, step)
        for name, value in values.items():
            if not math.isfinite(value) and must_be_finite(name) and name not in self._not_finite:
                self._not_finite.add(name)
                _logger.warning("step %d: %s is %s; metrics.jsonl holds null there", step, name, _in_words(value))
        with disk_errors("write metrics", self.directory):
            self._metrics.write({"step": step, "seconds": round(self._elapsed(), 3), **values})
        self._trackers.log(step, values)
        for listener in self.listeners:
            listener(step, values)

    def show(self, step: int, name: str, draw: Callable[[Path], object]) -> None:
        """Send an animation to the trackers; without one nothing is drawn.

        Args:
            step: Steps completed.
            name: What trackers call it, the same at every step, such as ``heldout/motions``.
            draw: Writes a GIF to the path that it is given.
        """
        self._trackers.show(step, name, draw)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object] | None = None
    ) -> Path:
        """Write a checkpoint of `step` and the state of the random generators; see `save_checkpoint`.

        Args:
            step: Steps completed.
            tensors: Groups of named tensors, such as ``{"model": ..., "optimizer": ..., "ema": ...}``.
            state: JSON-able counters, cursors and option values.

        Raises:
            MotionkitError: The disk is full (code 1), older checkpoints are intact; or the run folder was emptied or
                replaced meanwhile (code 1).
        """
        self._step = max(self._step, step)
        self._require_folder()
        return save_checkpoint(self.directory / "checkpoints", step, tensors, state or {}, keep=self._keep)

    def artifact(self, name: str) -> Path:
        """Return the path of a file or folder that the trainer makes in the run folder, and register it in run.json.

        A registered artefact is deleted when the run is overwritten; other files in the folder are kept.

        Args:
            name: A plain name, such as ``policy``.
        """
        self._require_folder()
        if name not in self._record.artifacts:
            self.annotate(artifacts=[*self._record.artifacts, name])
        return self.directory / name

    def annotate(self, **facts: object) -> None:
        """Add JSON-able facts to run.json, such as the device in words.

        Raises:
            pydantic.ValidationError: An entry that motionkit itself reads got a value of another type.
        """
        self._require_folder()
        self._record.annotate(**facts)
        with disk_errors("write run.json", self.directory):
            self._record.write(self.directory)

    def finish(self, parts: Mapping[str, object] | None = None) -> dict[str, object]:
        """Record the end of the run and return the summary document that ``--json`` prints.

        Args:
            parts: What the trainer returned: ``heldout``, ``metrics`` and so on.
        """
        if self.status == "running":
            self.status = "interrupted" if self.stop_requested else "done"
        cpu = self._cpu_before + time.process_time() - self._cpu_started
        document: dict[str, object] = {
            "schema": 1,
            "command": self.command,
            "status": self.status,
            "run": str(self.directory),
            "steps": self._step,
            "seconds": round(self._elapsed(), 3),
            "cpu_seconds": round(cpu, 3),
            "heldout": {},
            "metrics": {},
        }
        document = {key: finite(value) for key, value in {**document, **(parts or {})}.items()}
        self._finished = True
        self._trackers.finish()
        if odd := not_finite(self.directory / "metrics.jsonl"):  # of all attempts
            document["not_finite"] = odd
            for name, entry in odd.items():
                lines = "1 line" if entry["lines"] == 1 else f"{entry['lines']} lines"
                _logger.warning("%s was not finite in %s, first in step %d", name, lines, entry["first"])
        try:
            self._record.end(document, self.exit_code)
            self._metrics.close()
            self._require_folder()
            self._record.write(self.directory)
        except (MotionkitError, OSError) as error:  # the outcome is decided, and a full disk was reported
            _logger.warning("the end of the run could not be recorded in %s: %s", self.directory, error)
        if self.status == "interrupted":
            _logger.warning("interrupted at step %d; continue with: %s", self._step, self.resume_command)
        return document

    def _require_folder(self) -> None:
        """Raise when the folder at this path is no longer the locked one; it may belong to another run."""
        if not still_holds(self._lock, self.directory):
            raise MotionkitError(
                f"{self.directory} was emptied, moved or replaced while the run was going on.",
                why="nothing can be saved there any more.",
                fix="start the run again",
                code=1,
            )

    def _elapsed(self) -> float:
        return self._seconds + time.monotonic() - self._started

    def __enter__(self) -> Self:
        self.signals.install()
        self._log_file.open()
        state = f"resumed after step {self.start_step}" if self._checkpoint else "started"
        _logger.info("%s %s: %s", self.command, state, self.directory)
        self._trackers.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, KeyboardInterrupt):
                self.status = "interrupted"
            elif error is not None:
                self.status = "failed"
                self._record.error = str(error) or type(error).__name__
                cause = error.__cause__ if isinstance(error, MotionkitError) else error  # a plugin's own traceback
                _logger.error("failed at step %d: %s", self._step, error, exc_info=cause)
            if error is not None or not self._finished:
                self.finish()
        finally:
            self.signals.remove()
            self._log_file.close()
            self._lock.close()
        if isinstance(error, MotionkitError) and error.code == 2:
            raise error.as_late() from error


class FollowingRun(Run):
    """The run in a process other than the main one, which writes nothing.

    Files that a trainer writes anyway go into a temporary folder, which is deleted at the end.
    """

    @classmethod
    def follow(cls, command: str, snapshot: Mapping[str, Any], checkpoint: str | None) -> Self:
        """Return the run of a process that is not the main one.

        Args:
            command: The command.
            snapshot: All settings.
            checkpoint: Folder of the checkpoint that the main process resumes from; None for a new run.
        """
        start = None if checkpoint is None else read_checkpoint(Path(checkpoint))
        folder = Path(tempfile.mkdtemp(prefix="motionkit-"))
        return cls._begin(
            folder, {**snapshot, "track": ()}, RunRecord.new(command, {}), hold(folder), start, (), None, 0.0
        )

    def log(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Check the names of metrics without writing them."""
        require_defined(metrics)
        self._step = max(self._step, step)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object] | None = None
    ) -> Path:
        """Write no checkpoint; the main process writes it."""
        self._step = max(self._step, step)
        return self.directory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def open_run(
    command: str,
    snapshot: Mapping[str, Any],
    *,
    shape_keys: Sequence[str] = (),
    argv: Sequence[str] = (),
    origins: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    recorded: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    root: str | Path = "runs",
) -> Run:
    """Create or resume a run by ``snapshot["run"]`` (out, name, overwrite, resume); see `Run.create`, `Run.resume`."""
    place: Mapping[str, Any] = snapshot.get("run") or {}
    if place.get("resume"):
        return Run.resume(
            place["resume"],
            snapshot,
            command=command,
            shape_keys=shape_keys,
            argv=argv,
            origins=origins,
            inputs=inputs,
            recorded=recorded,
        )
    return Run.create(
        command,
        snapshot,
        out=place.get("out"),
        name=place.get("name"),
        overwrite=bool(place.get("overwrite")),
        argv=argv,
        origins=origins,
        inputs=inputs,
        root=root,
    )


@contextmanager
def logging_into(folder: Path) -> Iterator[None]:
    """Copy messages into the log.txt of a run that has ended, if that file can still be written."""
    log = LogFile(folder / "log.txt")
    try:
        log.open()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        log.close()


class StopSignals:
    """Handlers of Ctrl-C and SIGTERM: the first requests a stop after the current step, the second stops at once."""

    def __init__(self) -> None:
        self.received = 0  # the first signal's number, or 0
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Install the handlers; does nothing outside the main thread, where Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def remove(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def stop(self, number: int = signal.SIGINT) -> None:
        """Request a stop as by the signal `number`, which sets the exit code."""
        self.received = self.received or number

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise Interrupted(number)
        self.received = number
        _logger.warning("stopping after this step; press Ctrl-C again to stop at once")


class LogFile:
    """Copies motionkit's messages on stderr, those of the ``motionkit`` logger, into a file while open.

    Args:
        path: The file; appended to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handler: logging.Handler | None = None
        self._level = logging.NOTSET

    def open(self) -> None:
        """Start copying, at level INFO."""
        self._handler = _QuietHandler(self._path, encoding="utf-8", errors="replace")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("motionkit")
        self._level = logger.level
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
        logger.addHandler(self._handler)

    def close(self) -> None:
        """Stop copying and put the logger's level back."""
        if self._handler is not None:
            logger = logging.getLogger("motionkit")
            logger.removeHandler(self._handler)
            logger.setLevel(self._level)
            self._handler.close()
            self._handler = None


class _QuietHandler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Drop a line that cannot be written; the next checkpoint reports a full disk."""


def _in_words(value: float) -> str:
    return "not a number" if math.isnan(value) else "infinite"


def _keep(snapshot: Mapping[str, Any]) -> int:
    return int((snapshot.get("checkpoint") or {}).get("keep", 2))
