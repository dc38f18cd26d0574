"""The motion predictor: known frames in, the frames that follow out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_model
from motionkit.errors import MotionkitError
from motionkit.rigs import find_feet
from motionkit.runs import find_model, fingerprint_tensors, write_model
from motionkit_predictor.encoder.network import EncoderSizes, MotionEncoder, Scales
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork, Standing
from motionkit_predictor.settings import MplOptions, PredictorSettings
from motionkit_predictor.states import MotionState

KIND, ARTIFACT, DOCUMENT = "mpl", "policy", "policy.json"

Point = tuple[float, float, float]


class PredictorDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mpl"]
    settings: PredictorSettings
    encoder: EncoderSizes | None = None
    fps: float = Field(gt=0, le=1000)
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]
    parents: tuple[int, ...]
    offsets: tuple[Point, ...]
    fastest: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not len(self.names) == len(self.parents) == len(self.offsets):
            raise ValueError("names, parents and offsets differ in length")
        if self.parents[0] != -1 or any(not 0 <= parent < joint for joint, parent in enumerate(self.parents) if joint):
            raise ValueError("a joint stands before its parent")
        return self


class Predictor(Protocol):
    """A motion predictor; ``Component(gives="predictor")``.

    It gets known frames and predicts the following ones. It never sees later true frames; all that it may know of the
    future is the `command`. In evaluation, frame h of a free run is frame h of one call, and teacher forcing
    asks for one frame after the true ones.

    Attributes:
        names: Joint names of its skeleton.
        fps: Frames per second.
        past: Number of known frames it reads, at least 2.
    """

    names: tuple[str, ...]
    fps: float
    past: int

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow.

        Args:
            known: ``[N, P, ...]`` float64 on the CPU, P at least `past`. A clip with fewer frames is padded in front
                with its first frame.
            frames: Number of frames to predict.
            command: ``[N, F, 3]``, F at least `frames`: the path that the root should follow, as the steps of
                `motionkit_predictor.states.MotionState`; None for no path.

        Returns:
            ``[N, frames, ...]``, float32 or 64, on the CPU.
        """
        ...


class MplPredictor:
    """A trained predictor; see `motionkit_predictor.policy.Predictor`."""

    def __init__(
        self,
        settings: PredictorSettings,  # shape of the network
        network: PredictorNetwork,  # the network; put into eval mode here
        *,
        names: Sequence[str],  # joint names
        parents: Sequence[int],  # parent of each joint, -1 for the root
        offsets: Tensor,  # [J, 3] metres from the parent: the body that roll-outs are written with
        # Largest speed of the root in the training clips, m/s, which limits the speed of a path; None: not known
        fastest: float | None = None,
    ) -> None:
        self.settings = settings
        self.network = network.eval()
        self.fps, self.past = network.fps, network.past
        self.names, self.parents, self.offsets = tuple(names), tuple(parents), offsets.double()
        self.fastest = fastest
        feet = find_feet(names, parents)
        # The joint of each foot that stands longest, left and right; None if their names are not known.
        self.feet = None if feet is None else (feet[0][-1], feet[1][-1])
        self._standing = None if self.feet is None else Standing(self.offsets, self.parents, self.feet)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of its weights, by option."""
        return {"checkpoint": fingerprint_tensors(self.tensors())}

    @torch.no_grad()
    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit_predictor.policy.Predictor`.

        A predictor that was trained without a command ignores it.
        """
        device = next(self.network.parameters()).device
        read = known.map(lambda values: values.to(device, torch.float32))
        path = None if command is None else command.to(device, torch.float32)
        predicted = self.network.free_run(
            read, frames, command=path, standing=self._standing, fastest=self.fastest
        )  # fmt: skip
        return predicted.map(Tensor.cpu)

    def document(self) -> dict[str, Any]:
        """Return the content of policy.json: everything about the predictor except its tensors."""
        encoder = self.network.encoder
        return {
            "schema": 1,
            "kind": KIND,
            "settings": self.settings.model_dump(mode="json"),
            "encoder": None if encoder is None else encoder.sizes.model_dump(),
            "fps": self.fps,
            "names": list(self.names),
            "parents": list(self.parents),
            "offsets": self.offsets.tolist(),
            "fastest": self.fastest,
            "feet": self.feet,  # found by their names; for programs that do not know names
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and statistics by name."""
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned, in place."""
        weights.load_strict(self.network, dict(tensors), "the checkpoint")

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the predictor as a folder that `eval mpl` opens; without `tensors` only its description."""
        write_model(folder, DOCUMENT, self.document(), self.tensors() if tensors else None)
        return folder

    def to(self, device: torch.device | str) -> Self:
        """Move the network."""
        self.network.to(device)
        return self


def open_predictor(options: MplOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> MplPredictor:
    """Open the predictor that `options` names."""
    if not options.checkpoint:
        raise MotionkitError("no motion predictor was named.", fix="--policy.checkpoint RUN, a run of train-mpl.")
    model = find_model(weights.located(options.checkpoint), ARTIFACT, DOCUMENT)
    if model is None:
        raise MotionkitError(
            f"{options.checkpoint} is not a motion predictor.",
            fix="give a run of train-mpl, or a folder with policy.json.",
        )
    document = read_model(model.document, PredictorDocument, KIND, f" policy, not {KIND}")
    joints = len(document.names)
    # Statistics are made outside: they are loaded into, and may not be on the meta device.
    neutral, scales = Statistics.neutral(joints), Scales.neutral(joints)

    def make() -> PredictorNetwork:
        encoder = None
        if document.encoder is not None:
            encoder = MotionEncoder(document.encoder, document.names, document.fps, scales)
        return PredictorNetwork(document.settings, joints, document.fps, neutral, encoder)

    network = weights.build(make, weights.read(model.tensors), str(model.tensors))
    predictor = MplPredictor(
        document.settings, network, names=document.names, parents=document.parents,
        offsets=torch.tensor(document.offsets, dtype=torch.float64), fastest=document.fastest,
    )  # fmt: skip
    return predictor.to(device)
