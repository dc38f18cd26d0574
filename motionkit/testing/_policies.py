"""The contracts of policies: diffusion policies and region policies (`check_policy`), motion predictors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion.prediction import MotionState
from motionkit.nn.lora import names_by_group
from motionkit.plugins import Component
from motionkit.predictor.policy import Predictor
from motionkit.regions.datasets.settings import ShapesOptions
from motionkit.regions.evaluation.measure import masks_at
from motionkit.regions.policy import RegionPolicy
from motionkit.testing._component import Findings, check_component, component_of, options_of
from motionkit.testing._rewards import TEXTS, TOLERANCE, is_near
from motionkit.text import Prompt
from motionkit.text_to_motion.policy import DiffusionPolicy

PREDICTOR_TOLERANCE = 1e-5
_FRAMES, _LONGER = 4, 7  # predicted frames, and frames of a command


def check_policy(
    policy: str | Component | DiffusionPolicy | RegionPolicy,
    *,
    options: dict[str, Any] | None = None,
    images: Sequence[NDArray[np.uint8]] | None = None,
    captions: Sequence[str] = (),
) -> None:
    """Check what samplers and GRPO rely on in every diffusion policy, and `sa2va-rl` in every region policy.

    Diffusion: it predicts ``[N, T, D]`` float32, finite where motions are valid; padding, NaN included, and the other
    samples of the batch change nothing; guidance 1 is the conditional prediction; the network is in eval mode, and
    training it is possible (a gradient reaches its parameters).

    Regions: captions depend on the noise only, not on the rest of the batch; the log-probabilities of sampled words are
    finite, 0 in the padding, and the same alone and in a batch; so are masks; a gradient reaches each of its groups;
    its weights can be restored, and a saved folder opens with them.

    Args:
        policy: Its name, its component, or a loaded policy.
        options: Options to build it with.
        images: For a region policy: at least two images ``[H, W, 3]`` uint8; by default the built-in shapes, 48 x 48
            pixels.
        captions: For a region policy: a text for each image in words that it knows.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_policy
        >>> check_policy(load_policy("starter"))
    """
    if isinstance(policy, str):
        check_component("policies", policy)
    component: Component | None
    if isinstance(policy, (str, Component)):
        component = component_of("policies", policy)
        built = component.build(options_of(component, options), device="cpu")
    else:
        component, built = None, policy
    findings = Findings(f"policy {type(built).__name__!r}")
    if hasattr(built, "sample_captions"):
        check_region_policy(findings, cast("RegionPolicy", built), images, captions)
        if component is not None:
            check_saved(findings, cast("RegionPolicy", built), component, options or {})
    else:
        _check_diffusion(findings, cast("DiffusionPolicy", built))
    findings.close()


def _check_diffusion(findings: Findings, policy: DiffusionPolicy) -> None:
    findings.expect(
        not policy.network.training, "Its network must be in eval mode: dropout would break the ratio audit."
    )
    lengths = torch.tensor([40, 32])
    findings.expect(policy.max_length >= 40, f"max_length {policy.max_length} is too short to be of use.")
    prompts = [Prompt((text,), (int(n),), key=text) for text, n in zip(TEXTS, lengths.tolist(), strict=False)]
    noise = torch.randn(2, 40, policy.normalizer.width, generator=torch.Generator().manual_seed(0))
    predicted = _predict(policy, noise, prompts, lengths)
    if findings.expect(
        predicted.shape == noise.shape,
        f"predict must return [N, T, D] = {list(noise.shape)}, returned {list(predicted.shape)}.",
    ):
        _check_values(findings, policy, noise, prompts, lengths, predicted)
    _check_gradient(findings, policy, noise, prompts, lengths)


def _check_values(
    findings: Findings,
    policy: DiffusionPolicy,
    noise: Tensor,
    prompts: list[Prompt],
    lengths: Tensor,
    predicted: Tensor,
) -> None:
    valid = torch.arange(40) < lengths[:, None]
    findings.expect(predicted.dtype == torch.float32, f"predict must return float32, returned {predicted.dtype}.")
    findings.expect(bool(predicted[valid].isfinite().all()), "predict is not finite on valid frames.")
    dirty = noise.clone()
    dirty[~valid] = torch.nan
    padded = _predict(policy, dirty, prompts, lengths)
    findings.expect(is_near(padded[valid], predicted[valid]), "What stands in the padding changes the prediction.")
    alone = _predict(policy, noise[1:, :32], prompts[1:], lengths[1:])
    findings.expect(
        is_near(alone[0], predicted[1, :32]), "A sample predicted alone differs from the same sample in a batch."
    )
    guided = _predict(policy, noise, prompts, lengths, guidance=2.5)
    findings.expect(bool(guided[valid].isfinite().all()), "predict with guidance is not finite.")


def _check_gradient(
    findings: Findings, policy: DiffusionPolicy, noise: Tensor, prompts: list[Prompt], lengths: Tensor
) -> None:
    parameters = [p for p in policy.network.parameters() if p.requires_grad]
    if not findings.expect(bool(parameters), "No parameter of its network can be trained."):
        return
    with torch.enable_grad():
        out = policy.predict(noise, torch.zeros(2, dtype=torch.int64), policy.condition(prompts), lengths)
        gradients = torch.autograd.grad(out[:, :32].square().mean(), parameters, allow_unused=True)
    reached = any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients)
    findings.expect(reached, "No gradient reaches its network's parameters.")


def _predict(
    policy: DiffusionPolicy, x: Tensor, prompts: list[Prompt], lengths: Tensor, guidance: float = 1.0
) -> Tensor:
    timestep = torch.full((x.shape[0],), 3, dtype=torch.int64)
    with torch.no_grad():
        return policy.predict(x, timestep, policy.condition(prompts), lengths, guidance=guidance)


def check_region_policy(
    findings: Findings, policy: RegionPolicy, images: Sequence[NDArray[np.uint8]] | None, captions: Sequence[str]
) -> None:
    """Add violations of a region policy; see `motionkit.testing.check_policy`.

    Args:
        findings: Collects the violations.
        policy: The policy.
        images: At least two images; None takes those of the built-in shapes.
        captions: Texts in words that it knows, one for each image.
    """
    images, captions = _inputs(images, captions)
    count = len(images)
    findings.expect(not policy.network.training, "Its network must be in eval mode.")
    with torch.no_grad():
        seen = policy.see(images)
    if not findings.expect(len(seen) == count, f"see must give {count} rows, gave {len(seen)}."):
        return
    masks = torch.zeros(count, *policy.mask_size, dtype=torch.bool, device=policy.device)
    masks |= masks_at([_block(place) for place in range(count)], policy.mask_size).to(policy.device)
    _check_captions(findings, policy, seen, masks)
    _check_masks(findings, policy, seen, captions)
    _check_groups(findings, policy, seen, masks, captions)
    _check_tensors(findings, policy)


def check_saved(findings: Findings, policy: RegionPolicy, component: Component, options: dict[str, Any]) -> None:
    """Add a violation if a saved policy opens with other weights."""
    if "checkpoint" not in component.options.model_fields:
        return
    with TemporaryDirectory() as place:
        policy.save(Path(place), tensors=policy.tensors())
        checked = component.options.model_validate({**options, "checkpoint": place})
        again = component.build(checked, device="cpu", dataset=None).tensors()
    kept = policy.tensors()
    same = again.keys() == kept.keys() and all(
        torch.equal(kept[name].cpu(), tensor.cpu()) for name, tensor in again.items()
    )
    findings.expect(same, "A folder that save wrote, opened by the option checkpoint, has other weights.")


def _inputs(
    images: Sequence[NDArray[np.uint8]] | None, captions: Sequence[str]
) -> tuple[Sequence[NDArray[np.uint8]], Sequence[str]]:
    if images is not None:
        return images, captions or ["a thing"] * len(images)
    from motionkit.regions.datasets.scenes import Shapes

    drawn = Shapes(ShapesOptions()).regions("val", np.arange(4))
    return drawn.images, captions or drawn.captions


def _block(place: int) -> NDArray[np.bool_]:
    mask = np.zeros((32, 32), bool)
    mask[4 + 4 * (place % 4) : 16 + 4 * (place % 4), 6:20] = True
    return mask


def _check_captions(findings: Findings, policy: RegionPolicy, seen: Any, masks: torch.Tensor) -> None:
    count = len(masks)
    noise = torch.rand(count, policy.longest, generator=torch.Generator().manual_seed(0)).to(policy.device)
    captions = policy.sample_captions(seen, masks, noise=noise)
    fits = (
        captions.ids.ndim == 2
        and len(captions.ids) == count == len(captions.texts)
        and captions.ids.shape[1] <= policy.longest
    )
    if not findings.expect(fits, f"sample_captions must give {count} texts and ids [N, L], L at most longest."):
        return
    findings.expect(captions.ended.dtype == torch.bool and captions.ended.shape == (count,), "ended must be [N] bool.")
    again = policy.sample_captions(seen, masks, noise=noise)
    findings.expect(captions.texts == again.texts, "The same noise gives other captions.")
    rows = torch.tensor([count - 1, 0], device=policy.device)
    some = policy.sample_captions(seen.select(rows), masks[rows], noise=noise[rows])
    findings.expect(
        some.texts == [captions.texts[-1], captions.texts[0]],
        "A caption depends on its batch, or on its order.",
    )
    with torch.enable_grad():
        scores = policy.score_words(seen, masks, captions.ids)
    shape = tuple(captions.ids.shape)
    fits = all(tuple(values.shape) == shape for values in (scores.log_prob, scores.entropy, scores.mask))
    if not findings.expect(fits, f"score_words must give log_prob, entropy and mask of the ids' shape {shape}."):
        return
    padding = ~scores.mask
    zero = bool((scores.log_prob[padding] == 0).all()) and bool((scores.entropy[padding] == 0).all())
    findings.expect(zero, "log_prob and entropy must be 0 behind the end of a caption.")
    fine = bool(scores.log_prob.isfinite().all()) and bool((scores.log_prob <= TOLERANCE).all())
    findings.expect(fine, "log_prob must be finite and not above 0 for words that the policy sampled itself.")
    findings.expect(bool((scores.entropy >= -TOLERANCE).all()), "entropy must not be below 0.")
    alone = policy.score_words(seen.select(rows[:1]), masks[rows[:1]], captions.ids[rows[:1]])
    near = is_near(alone.log_prob[0], scores.log_prob[-1])
    findings.expect(near, "A caption scored alone differs from the same caption in a batch.")


def _check_masks(findings: Findings, policy: RegionPolicy, seen: Any, captions: Sequence[str]) -> None:
    count, size = len(captions), (policy.action_size,)
    with torch.no_grad():
        prompts = policy.prompts(seen, captions)
        if not findings.expect(
            tuple(prompts.shape) == (count, *size), f"prompts must be [N, {size[0]}], are {list(prompts.shape)}."
        ):
            return
        logits = policy.draw(seen, prompts)
        expected = (count, *policy.mask_size)
        if not findings.expect(
            tuple(logits.shape) == expected, f"draw must give {list(expected)}, not {list(logits.shape)}."
        ):
            return
        findings.expect(bool(logits.isfinite().all()), "draw gives logits that are not finite.")
        row = torch.tensor([count - 1], device=policy.device)
        alone = policy.draw(seen.select(row), policy.prompts(seen.select(row), captions[-1:]))
    near = torch.allclose(alone[0], logits[-1], atol=1e-3, rtol=1e-3)
    findings.expect(near, "A mask drawn alone differs from the same mask in a batch.")


def _check_groups(
    findings: Findings, policy: RegionPolicy, seen: Any, masks: torch.Tensor, captions: Sequence[str]
) -> None:
    named = dict(policy.network.named_parameters())
    trained = {name: parameter.requires_grad for name, parameter in named.items()}
    for group, names in names_by_group(policy.groups, named).items():
        if not findings.expect(bool(names), f"groups[{group!r}] matches no parameter of its network."):
            continue
        for parameter in named.values():
            parameter.requires_grad_(False)
        for name in names:
            named[name].requires_grad_(True)
        with torch.enable_grad():
            words = policy.score_words(seen, masks, policy.encode(captions)).log_prob.sum()
            total = words + policy.draw(seen, policy.prompts(seen, captions)).square().mean()
            reached: tuple[Any, ...] = (
                torch.autograd.grad(total, [named[name] for name in names], allow_unused=True)
                if total.requires_grad
                else ()
            )
        fine = any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in reached)
        findings.expect(fine, f"No gradient of words or masks reaches groups[{group!r}].")
    for name, parameter in named.items():
        parameter.requires_grad_(trained[name])


def _check_tensors(findings: Findings, policy: RegionPolicy) -> None:
    before = {name: tensor.detach().clone() for name, tensor in policy.tensors().items()}
    if not findings.expect(bool(before), "tensors() is empty: nothing of it would be saved."):
        return
    policy.load_tensors({name: torch.zeros_like(tensor) for name, tensor in before.items()})
    changed = all(not bool(tensor.any()) for tensor in policy.tensors().values())
    policy.load_tensors(before)
    back = all(torch.equal(tensor, before[name]) for name, tensor in policy.tensors().items())
    findings.expect(changed and back, "load_tensors does not put back what it is given.")


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
        predictor = cast("Predictor", component.build(options_of(component, options), device="cpu", dataset=None))
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
