"""Sends metrics to experiment trackers through accelerate.tracking; metrics.jsonl does not depend on them."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
        if not any(importlib.util.find_spec(module) for module in _MODULES[name]):
            raise MotionkitError(
                f"--track {name}: {name} is not installed.", why="nothing would be tracked.",
                fix=f"pip install 'motionkit[{name}]'",
            )  # fmt: skip


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
    """The open trackers of a run. A tracker that fails is switched off with one warning; the run goes on.

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
        for name in names:
            place = folder / name
            make = (factories or {}).get(name) or _accelerate_factory(name)
            self._guard(name, partial(self._open, name, partial(make, title, run_id, place), place, settings))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the trackers that have not failed."""
        return tuple(self._live)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step's metrics; values that are not finite are left out."""
        values = {name: value for name, value in metrics.items() if math.isfinite(value)}
        for name, tracker in list(self._live.items()):
            self._guard(name, partial(tracker.log, dict(values), step=step))

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
            _logger.warning("tracker %s failed and is switched off (%s); metrics.jsonl has everything", name, error)


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
            tracker = tracking.ClearMLTracker(project, project_name=project, task_name=run)
        else:
            if "MLFLOW_TRACKING_URI" not in os.environ:  # mlflow 3 no longer writes plain folders
                mlflow = importlib.import_module("mlflow")
                mlflow.set_tracking_uri(f"sqlite:///{(place / 'mlflow.db').resolve()}")
            tracker = tracking.MLflowTracker(project, logging_dir=str(place / "artifacts"), run_name=run)
        made: Tracker = tracker
        return made

    return make
