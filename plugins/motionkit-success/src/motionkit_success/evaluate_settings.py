"""Settings of ``eval reward``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from motionkit.config import Cli
from motionkit.contracts.protocol import DEVICE_HELP, Argument, ProtocolSettings
from motionkit.plugins import Component
from motionkit.runs import made_by


class RewardSettings(ProtocolSettings):
    """Measure a success classifier: AUROC, precision, recall, calibration, and checks of what ruins a reward.

    Without DATA the run's own held-out episodes are measured again.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument(
            "RUN",
            "Run of reward-train, a checkpoint, or the guide's checkpoint.pt; default: the newest finished run.",
            "",
        ),
        Argument(
            "DATA...",
            "Runs of reward-collect or folders of episodes; default: the held-out episodes of the run.",
            many=True,
            required=False,
        ),
    )

    threshold: Annotated[float | None, Cli("--threshold", panel="What")] = Field(
        None, ge=0, le=1, description="Probability from which a frame is a success; default: the classifier's own."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder for the result and its page evaluation.html; default: none."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(0, ge=0, lt=2**63, description="Seed of the intervals.")
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=DEVICE_HELP)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one on a small machine, else torch's choice."
    )

    def plan(self, model: str, data: Sequence[str]) -> Mapping[str, object]:
        """Return the data that follow from the run of the model."""
        run = made_by(model) if model and not data else None
        table = run.config.get("data") if run is not None else None
        places = table.get("path") if isinstance(table, Mapping) else None
        return {"data": f"held-out episodes of {', '.join(map(str, places))}"} if places else {}


component = Component(
    summary="Measure a success classifier, and check what ruins a reward",
    options=RewardSettings,
    factory="motionkit_success.evaluate:Reward",
    reads="classifier",
    metrics="motionkit_success.metrics:METRICS",
)
