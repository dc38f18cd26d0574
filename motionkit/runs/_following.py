"""The run of a process that computes with others and writes nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

from motionkit.runs._checkpoint import read_checkpoint
from motionkit.runs._lock import hold
from motionkit.runs._record import RunRecord
from motionkit.runs._run import Run
from motionkit.tracking import require_defined

if TYPE_CHECKING:
    from torch import Tensor


class FollowingRun(Run):
    """A run without a folder of its own: another process writes it.

    What a trainer writes all the same goes into a temporary folder, which is deleted at the end.
    """

    @classmethod
    def follow(cls, command: str, snapshot: Mapping[str, Any], checkpoint: str | None) -> Self:
        """Return the run of a process that is not the main one.

        Args:
            command: The command.
            snapshot: All settings.
            checkpoint: Folder of the checkpoint that the main process goes on from; None at the start.

        Raises:
            MotionkitError: The checkpoint cannot be read here.
        """
        found = None if checkpoint is None else read_checkpoint(Path(checkpoint))
        folder = Path(tempfile.mkdtemp(prefix="motionkit-"))
        return cls._begin(
            folder, {**snapshot, "track": ()}, RunRecord.new(command, {}), hold(folder), found, (), None, 0.0
        )

    def log(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Check the names of metrics, and write none."""
        require_defined(metrics)
        self._step = max(self._step, step)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object] | None = None
    ) -> Path:
        """Write no checkpoint; the main process's holds the same."""
        self._step = max(self._step, step)
        return self.directory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
