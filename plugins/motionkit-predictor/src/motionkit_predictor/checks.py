"""The contract of motion predictors."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.testing import Findings, check_component, component_of, options_of
from motionkit_predictor.policy import Predictor
from motionkit_predictor.states import MotionState

PREDICTOR_TOLERANCE = 1e-5
_FRAMES, _LONGER = 4, 7  # predicted frames, and frames of a command


def check_predictor(predictor: str | Component | Predictor, *, options: dict[str, Any] | None = None) -> None:
    """Check what `motionkit eval mpl` relies on in every motion predictor.

    It returns the requested number of frames, orthonormal rotations and finite values; the samples of a batch do not
    affect each other; its inputs stay unchanged; the same input gives the same output; with and without a command.

    Args:
        predictor: Its name, its component, or a loaded predictor.
        options: Options to build it with, such as ``checkpoint``.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    if isinstance(predictor, str):
        check_component("policies", predictor)
    if isinstance(predictor, (str, Component)):
        component = component_of("policies", predictor)
        predictor = cast(
            "Predictor",
            plugins.build("policies", component, options_of(component, options), device="cpu", dataset=None),
        )
    findings = Findings(f"predictor {type(predictor).__name__!r}")
    findings.expect(predictor.past >= 2, f"past is {predictor.past}; a predictor reads two frames or more.")
    findings.expect(predictor.fps > 0, f"fps is {predictor.fps}.")
    findings.expect(len(set(predictor.names)) == len(predictor.names), "Two joints have one name.")
    context = _known(predictor)
    command = 0.01 * torch.ones(2, _LONGER, 3, dtype=torch.float64)
    for path in (None, command):
        _check_answers(findings, predictor, context, path)
    findings.close()


def _known(predictor: Predictor) -> MotionState:
    """Return two nearly motionless motions, ``[2, past + 3, ...]``."""
    frames, joints = predictor.past + 3, len(predictor.names)
    draw = torch.Generator().manual_seed(0)
    turned = torch.eye(3, dtype=torch.float64) + 0.05 * torch.randn(
        2, frames, joints, 3, 3, generator=draw, dtype=torch.float64
    )
    rotations = torch.linalg.qr(turned).Q
    rotations = rotations * torch.linalg.det(rotations)[..., None, None]
    steps = 0.01 * torch.randn(2, frames, 3, generator=draw, dtype=torch.float64)
    shape = 2, frames
    return MotionState(rotations, steps, torch.ones(shape).double(), torch.full((*shape, 2), 0.5).double())


def _check_answers(findings: Findings, predictor: Predictor, context: MotionState, command: Tensor | None) -> None:
    how = "with a command" if command is not None else "without a command"
    before = context.map(Tensor.clone)
    try:
        answer = predictor.predict(context, _FRAMES, command=command)
    except MotionkitError as error:
        findings.expect(False, f"predict {how} raised: {error}")
        return
    joints = len(predictor.names)
    shapes = {"rotations": (2, _FRAMES, joints, 3, 3), "steps": (2, _FRAMES, 3), "heights": (2, _FRAMES),
              "contacts": (2, _FRAMES, 2)}  # fmt: skip
    for name, shape in shapes.items():
        values: Tensor = getattr(answer, name)
        if not findings.expect(
            tuple(values.shape) == shape, f"{name} {how} must be {list(shape)}, not {list(values.shape)}."
        ):
            return
        findings.expect(bool(values.isfinite().all()), f"{name} {how} must be finite.")
    turned = answer.rotations.double()
    off = (turned @ turned.mT - torch.eye(3, dtype=torch.float64)).abs().max()
    findings.expect(float(off) < 1e-3, f"rotations {how} must be orthonormal; they are off by {float(off):.2g}.")
    for name in shapes:
        same = torch.equal(getattr(context, name), getattr(before, name))
        findings.expect(same, f"predict {how} changed the {name} that it was given.")
    again = predictor.predict(context, _FRAMES, command=command)
    single = predictor.predict(
        context.map(lambda values: values[:1]), _FRAMES, command=None if command is None else command[:1]
    )
    for name in shapes:
        first = getattr(answer, name)
        findings.expect(torch.equal(first, getattr(again, name)), f"The same question {how} had two answers ({name}).")
        near = torch.allclose(first[:1], getattr(single, name), atol=PREDICTOR_TOLERANCE)
        findings.expect(near, f"{name} {how} depend on the other samples of the batch.")
