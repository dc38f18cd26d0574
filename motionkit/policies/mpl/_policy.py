"""The motion predictor: known frames in, the frames that follow out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from motionkit import weights
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.mpl._network import PredictorNetwork
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.policies.mpl._standing import Standing
from motionkit.policies.mpl._store import KIND, write_predictor
from motionkit.rigs import find_feet
from motionkit.runs import fingerprint_tensors


class MplPredictor:
    """A trained predictor; see `motionkit.policies.base.Predictor`.

    Args:
        settings: Shape of the network.
        network: The network; put into eval mode here.
        names: Joint names.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` metres from the parent: the body that roll-outs are written with.
        fastest: Metres per second that the root of its training clips goes at most; a path is not told faster. None: it
            is not known.

    Attributes:
        fps: Frames per second.
        past: Known frames that it reads at least; attention sees more, where they are known.
        feet: The joint of the left foot that stands longest, and of the right one; None where names do not tell them.
    """

    def __init__(
        self,
        settings: PredictorSettings,
        network: PredictorNetwork,
        *,
        names: Sequence[str],
        parents: Sequence[int],
        offsets: Tensor,
        fastest: float | None = None,
    ) -> None:
        self.settings = settings
        self.network = network.eval()
        self.fps, self.past = network.fps, network.past
        self.names, self.parents, self.offsets = tuple(names), tuple(parents), offsets.double()
        self.fastest = fastest
        feet = find_feet(names, parents)
        self.feet = None if feet is None else (feet[0][-1], feet[1][-1])
        self._standing = None if self.feet is None else Standing(self.offsets, self.parents, self.feet)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of what options name: of its weights, as they are now."""
        return {"checkpoint": fingerprint_tensors(self.tensors())}

    @torch.no_grad()
    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit.policies.base.Predictor`.

        A predictor that was trained without a command takes none into account.
        """
        device = next(self.network.parameters()).device
        read = known.map(lambda values: values.to(device, torch.float32))
        path = None if command is None else command.to(device, torch.float32)
        found = self.network.free_run(
            read, frames, command=path, standing=self._standing, fastest=self.fastest
        )  # fmt: skip
        return found.map(Tensor.cpu)

    def document(self) -> dict[str, Any]:
        """Return the content of policy.json: everything about the predictor except its tensors."""
        encoder = self.network.encoder
        return {
            "schema": 1,
            "kind": KIND,
            "settings": self.settings.model_dump(mode="json"),
            "encoder": None if encoder is None else asdict(encoder.sizes),
            "fps": self.fps,
            "names": list(self.names),
            "parents": list(self.parents),
            "offsets": self.offsets.tolist(),
            "fastest": self.fastest,
            "feet": self.feet,  # found by their names; for programs that do not know names
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return everything a checkpoint needs, by name."""
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned, in place.

        Raises:
            MotionkitError: A tensor is missing, unknown, or has another shape.
        """
        weights.load_strict(self.network, dict(tensors), "the checkpoint")

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the predictor as a folder that `eval mpl` opens; without `tensors` only its description."""
        return write_predictor(folder, self.document(), self.tensors() if tensors else None)

    def to(self, device: torch.device | str) -> Self:
        """Move the network."""
        self.network.to(device)
        return self
