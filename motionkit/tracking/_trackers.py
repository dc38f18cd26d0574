"""Experiment trackers, which get a run's metrics through `accelerate.tracking`; metrics.jsonl does not depend on them.

`require_trackers` checks what ``--track`` names, and `Trackers` sends. Each tracker has a maker (`_accelerate_factory`)
and a way to get an animation (`_SHOW`).
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from motionkit.errors import MotionkitError

_logger = logging.getLogger("motionkit.tracking")

_MODULES = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "clearml": ("clearml",),
    "mlflow": ("mlflow",),
}
"""Modules of each tracker, of which one has to be installed."""

_DATABASE = ("sqlalchemy", "alembic")
"""Packages that mlflow-skinny needs as well, to keep a run in a file: since mlflow 3 that is a database."""


class Tracker(Protocol):
    """The used part of ``accelerate.tracking.GeneralTracker``."""

    def start(self) -> None: ...

    def store_init_configuration(self, values: dict[str, Any]) -> None: ...

    def log(self, values: dict[str, Any], step: int | None = None) -> None: ...

    def finish(self) -> None: ...


TrackerFactory = Callable[[str, str, Path], Tracker]
"""Called with the run's title (``grpo/20261121-...``), its unique id and the folder for the tracker's files."""


def require_trackers(names: Sequence[str]) -> None:
    """Check that the packages behind `names` are installed, without importing them.

    Raises:
        MotionkitError: A tracker is unknown or its package is absent (exit code 2, before anything starts).
    """
    for name in names:
        if name not in _MODULES:
            raise MotionkitError(f"unknown tracker {name!r}.", fix=f"choose from {', '.join(_MODULES)}")
        needed = [_MODULES[name], *([(module,) for module in _DATABASE] if name == "mlflow" and not _server() else [])]
        for modules in needed:
            if not any(importlib.util.find_spec(module) for module in modules):
                raise MotionkitError(
                    f"--track {name}: {modules[0]} is not installed.",
                    why="nothing would be tracked.",
                    fix=f"pip install 'motionkit[{name}]'",
                )


def flatten(settings: Mapping[str, object], prefix: str = "") -> dict[str, bool | int | float | str]:
    """Return nested settings as ``{"optim.betas": "[0.9, 0.999]"}``: trackers accept neither nested values nor None."""
    flat: dict[str, bool | int | float | str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        elif value is not None:
            flat[f"{prefix}{key}"] = value if isinstance(value, (bool, int, float, str)) else str(value)
    return flat


class Trackers:
    """The trackers of a run. A tracker that fails is switched off with one warning; the run goes on.

    Args:
        names: Names from `require_trackers`.
        folder: Where trackers put their files; one folder per tracker inside.
        title: Title of the run, ``<command>/<folder name>``.
        run_id: Unique id of the run, the same after a resume; trackers that can continue a run do.
        settings: The run's settings; flattened, None dropped.
        factories: Makers by name, in place of accelerate's; for tests and other trackers.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        title: str,
        run_id: str,
        settings: Mapping[str, object],
        *,
        factories: Mapping[str, TrackerFactory] | None = None,
    ) -> None:
        self._live: dict[str, Tracker] = {}
        self._folder, self._settings = folder, settings
        self._makers: dict[str, Callable[[Path], Tracker]] = {}
        for name in names:
            self._makers[name] = partial((factories or {}).get(name) or _accelerate_factory(name), title, run_id)

    def open(self) -> None:
        """Start all of them; one that cannot be started is left out."""
        for name, make in self._makers.items():
            place = self._folder / name
            self._guard(name, partial(self._open, name, partial(make, place), place, self._settings))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the trackers that have not failed."""
        return tuple(self._live)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step's metrics; values that are not finite are left out."""
        values = {name: value for name, value in metrics.items() if math.isfinite(value)}
        for name, tracker in list(self._live.items()):
            self._guard(name, partial(tracker.log, dict(values), step=step))

    def show(self, step: int, name: str, draw: Callable[[Path], object]) -> None:
        """Send an animation, which is kept in the folder ``media`` beside those of the trackers.

        Args:
            step: Steps completed.
            name: What it is called, such as ``heldout/motions``.
            draw: Writes a GIF to the path that it is given; not called if no tracker is left.
        """
        if not self._live:
            return
        path = self._folder / "media" / f"{name.replace('/', '-')}-{step:08d}.gif"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draw(path)
        except Exception as error:  # a picture that cannot be drawn must not stop the run
            _logger.warning("trackers get no %s of step %d (%s)", name, step, error)
            return
        for known, tracker in list(self._live.items()):
            if known in _SHOW:
                self._guard(known, partial(_SHOW[known], tracker, name, path, step))

    def finish(self) -> None:
        """Close all of them."""
        for name, tracker in list(self._live.items()):
            self._guard(name, tracker.finish)
        self._live.clear()

    def _open(self, name: str, make: Callable[[], Tracker], place: Path, settings: Mapping[str, object]) -> None:
        place.mkdir(parents=True, exist_ok=True)
        tracker = make()
        tracker.start()
        tracker.store_init_configuration(dict(flatten(settings)))
        self._live[name] = tracker

    def _guard(self, name: str, action: Callable[[], object]) -> None:
        # Third-party code over a network can raise anything, which must not stop the run.
        try:
            action()
        except Exception as error:
            self._live.pop(name, None)
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            _logger.warning("tracker %s failed and is switched off (%s); metrics.jsonl has everything", name, reason)


def _server() -> bool:
    """Whether the user has an MLflow server, or another place for its runs."""
    return "MLFLOW_TRACKING_URI" in os.environ


@cache
def _own_cache() -> str | None:
    """Return the user's own cache folder of ClearML, as it was before the first run of this process."""
    return os.environ.get("CLEARML_CACHE_DIR")


def _accelerate_factory(name: str) -> TrackerFactory:
    def make(title: str, run_id: str, place: Path) -> Tracker:
        from accelerate import PartialState, tracking

        PartialState()  # accelerate's logger requires it
        command, _, run = title.partition("/")
        project = f"motionkit-{command}"
        tracker: Any
        if name == "tensorboard":
            tracker = tracking.TensorBoardTracker("", logging_dir=str(place))
        elif name == "wandb":
            tracker = tracking.WandBTracker(project, name=run, id=run_id, resume="allow", dir=str(place))
        elif name == "clearml":
            if os.environ.get("CLEARML_OFFLINE_MODE", "0").lower() in ("1", "true", "yes") and not _own_cache():
                os.environ["CLEARML_CACHE_DIR"] = str(place.resolve())  # where ClearML keeps an offline session
            _clearml_without_a_fork()
            # Without these options ClearML patches torch and argparse, and continues an older task of the same name.
            options = {"auto_connect_frameworks": False, "auto_connect_arg_parser": False, "reuse_last_task_id": False}
            tracker = tracking.ClearMLTracker(project, project_name=project, task_name=run, **options)
        else:
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report its use to its makers
            if not _server():
                mlflow = importlib.import_module("mlflow")
                mlflow.set_tracking_uri(f"sqlite:///{(place / 'mlflow.db').resolve()}")
            tracker = tracking.MLflowTracker(project, logging_dir=str(place / "artifacts"), run_name=run)
        made: Tracker = tracker
        return made

    return make


def _clearml_without_a_fork() -> None:
    """Let ClearML report from threads, as it does on Windows and macOS, in place of a process that it forks.

    A fork while its other thread starts ``git`` inherits the pipe on which that thread waits, so that the run
    never ends. This happened in 1 of 26 runs of ClearML 2.1.12.
    """
    config = importlib.import_module("clearml.config")
    config.config_obj.set_overrides({"sdk": {"development": {"report_use_subprocess": False}}})
    config.config.clear_config_impl()  # what was read of it on import


def _show_tensorboard(tracker: Any, name: str, path: Path, step: int) -> None:
    # `add_video` makes this very entry, but needs moviepy for it. TensorBoard plays a GIF among its images.
    writer, data = tracker.writer, path.read_bytes()
    package = "tensorboardX.proto" if type(writer).__module__.startswith("tensorboardX") else "tensorboard.compat.proto"
    summary = importlib.import_module(f"{package}.summary_pb2").Summary
    width, height = struct.unpack_from("<HH", data, 6)  # of a GIF's head
    image = summary.Image(height=height, width=width, colorspace=3, encoded_image_string=data)
    writer.file_writer.add_summary(summary(value=[summary.Value(tag=name, image=image)]), step)
    writer.flush()


def _show_wandb(tracker: Any, name: str, path: Path, step: int) -> None:
    video = importlib.import_module("wandb").Video(str(path), format="gif")
    tracker.tracker.log({name: video}, step=step)


def _show_clearml(tracker: Any, name: str, path: Path, step: int) -> None:
    title, _, series = name.rpartition("/")
    tracker.tracker.get_logger().report_media(title, series, iteration=step, local_path=str(path))


def _show_mlflow(tracker: Any, name: str, path: Path, step: int) -> None:
    tracker.log_artifact(str(path), artifact_path=name)


_SHOW: Mapping[str, Callable[[Any, str, Path, int], None]] = {
    "tensorboard": _show_tensorboard,
    "wandb": _show_wandb,
    "clearml": _show_clearml,
    "mlflow": _show_mlflow,
}
"""How each tracker gets an animation; ``(tracker, name, path, step)``."""
