"""The contract of a region policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.datasets.shapes import ShapesOptions
from motionkit.evaluation.regions._task import masks_at
from motionkit.plugins import Component
from motionkit.policies.base import RegionPolicy
from motionkit.policies.groups import names_by_group
from motionkit.testing._report import Findings

TOLERANCE = 1e-4


def check_region_policy(
    found: Findings, policy: RegionPolicy, images: Sequence[NDArray[np.uint8]] | None, captions: Sequence[str]
) -> None:
    """Add violations of a region policy; see `motionkit.testing.check_policy`.

    Args:
        found: Where they go.
        policy: The policy.
        images: At least two images that it sees; None takes those of the built-in shapes.
        captions: Texts in words that it knows, one for each image.
    """
    images, captions = _inputs(images, captions)
    count = len(images)
    found.expect(not policy.network.training, "Its network must be in eval mode.")
    with torch.no_grad():
        seen = policy.see(images)
    if not found.expect(len(seen) == count, f"see must give {count} rows, gave {len(seen)}."):
        return
    masks = torch.zeros(count, *policy.mask_size, dtype=torch.bool, device=policy.device)
    masks |= masks_at([_block(place) for place in range(count)], policy.mask_size).to(policy.device)
    _check_captions(found, policy, seen, masks)
    _check_masks(found, policy, seen, captions)
    _check_groups(found, policy, seen, masks, captions)
    _check_tensors(found, policy)


def check_saved(found: Findings, policy: RegionPolicy, component: Component, options: dict[str, Any]) -> None:
    """Add a violation where a policy that was saved does not come back."""
    if "checkpoint" not in component.options.model_fields:
        return
    with TemporaryDirectory() as place:
        policy.save(Path(place), tensors=policy.tensors())
        given = component.options.model_validate({**options, "checkpoint": place})
        again = component.build(given, device="cpu", dataset=None).tensors()
    kept = policy.tensors()
    same = again.keys() == kept.keys() and all(torch.equal(kept[name].cpu(), one.cpu()) for name, one in again.items())
    found.expect(same, "A folder that save wrote, opened by the option checkpoint, has other weights.")


def _inputs(
    images: Sequence[NDArray[np.uint8]] | None, captions: Sequence[str]
) -> tuple[Sequence[NDArray[np.uint8]], Sequence[str]]:
    if images is not None:
        return images, captions or ["a thing"] * len(images)
    from motionkit.datasets.shapes._dataset import Shapes

    drawn = Shapes(ShapesOptions()).regions("val", np.arange(4))
    return drawn.images, captions or drawn.captions


def _block(place: int) -> NDArray[np.bool_]:
    mask = np.zeros((32, 32), bool)
    mask[4 + 4 * (place % 4) : 16 + 4 * (place % 4), 6:20] = True
    return mask


def _check_captions(found: Findings, policy: RegionPolicy, seen: Any, masks: torch.Tensor) -> None:
    count = len(masks)
    noise = torch.rand(count, policy.longest, generator=torch.Generator().manual_seed(0)).to(policy.device)
    said = policy.sample_captions(seen, masks, noise=noise)
    fits = said.ids.ndim == 2 and len(said.ids) == count == len(said.texts) and said.ids.shape[1] <= policy.longest
    if not found.expect(fits, f"sample_captions must give {count} texts and ids [N, L], L at most longest."):
        return
    found.expect(said.ended.dtype == torch.bool and said.ended.shape == (count,), "ended must be [N] bool.")
    again = policy.sample_captions(seen, masks, noise=noise)
    found.expect(said.texts == again.texts, "The same noise gives other captions.")
    rows = torch.tensor([count - 1, 0], device=policy.device)
    some = policy.sample_captions(seen.select(rows), masks[rows], noise=noise[rows])
    found.expect(
        some.texts == [said.texts[-1], said.texts[0]],
        "A caption depends on its batch, or on its order.",
    )
    with torch.enable_grad():
        scores = policy.score_words(seen, masks, said.ids)
    shape = tuple(said.ids.shape)
    fits = all(tuple(one.shape) == shape for one in (scores.log_prob, scores.entropy, scores.mask))
    if not found.expect(fits, f"score_words must give log_prob, entropy and mask of the ids' shape {shape}."):
        return
    behind = ~scores.mask
    zero = bool((scores.log_prob[behind] == 0).all()) and bool((scores.entropy[behind] == 0).all())
    found.expect(zero, "log_prob and entropy must be 0 behind the end of a caption.")
    fine = bool(scores.log_prob.isfinite().all()) and bool((scores.log_prob <= TOLERANCE).all())
    found.expect(fine, "log_prob must be finite and not above 0 for words that the policy sampled itself.")
    found.expect(bool((scores.entropy >= -TOLERANCE).all()), "entropy must not be below 0.")
    alone = policy.score_words(seen.select(rows[:1]), masks[rows[:1]], said.ids[rows[:1]])
    near = torch.allclose(alone.log_prob[0], scores.log_prob[-1], atol=TOLERANCE, rtol=TOLERANCE)
    found.expect(near, "A caption scored alone differs from the same caption in a batch.")


def _check_masks(found: Findings, policy: RegionPolicy, seen: Any, captions: Sequence[str]) -> None:
    count, size = len(captions), (policy.action_size,)
    with torch.no_grad():
        prompts = policy.prompts(seen, captions)
        if not found.expect(
            tuple(prompts.shape) == (count, *size), f"prompts must be [N, {size[0]}], are {list(prompts.shape)}."
        ):
            return
        logits = policy.draw(seen, prompts)
        wanted = (count, *policy.mask_size)
        if not found.expect(tuple(logits.shape) == wanted, f"draw must give {list(wanted)}, not {list(logits.shape)}."):
            return
        found.expect(bool(logits.isfinite().all()), "draw gives logits that are not finite.")
        row = torch.tensor([count - 1], device=policy.device)
        alone = policy.draw(seen.select(row), policy.prompts(seen.select(row), captions[-1:]))
    near = torch.allclose(alone[0], logits[-1], atol=1e-3, rtol=1e-3)
    found.expect(near, "A mask drawn alone differs from the same mask in a batch.")


def _check_groups(
    found: Findings, policy: RegionPolicy, seen: Any, masks: torch.Tensor, captions: Sequence[str]
) -> None:
    named = dict(policy.network.named_parameters())
    kept = {name: one.requires_grad for name, one in named.items()}
    for group, own in names_by_group(policy.groups, named).items():
        if not found.expect(bool(own), f"groups[{group!r}] matches no parameter of its network."):
            continue
        for one in named.values():
            one.requires_grad_(False)
        for name in own:
            named[name].requires_grad_(True)
        with torch.enable_grad():
            words = policy.score_words(seen, masks, policy.encode(captions)).log_prob.sum()
            total = words + policy.draw(seen, policy.prompts(seen, captions)).square().mean()
            reached: tuple[Any, ...] = (
                torch.autograd.grad(total, [named[name] for name in own], allow_unused=True)
                if total.requires_grad
                else ()
            )
        fine = any(one is not None and bool(one.abs().sum() > 0) for one in reached)
        found.expect(fine, f"No gradient of words or masks reaches groups[{group!r}].")
    for name, one in named.items():
        one.requires_grad_(kept[name])


def _check_tensors(found: Findings, policy: RegionPolicy) -> None:
    before = {name: one.detach().clone() for name, one in policy.tensors().items()}
    if not found.expect(bool(before), "tensors() is empty: nothing of it would be saved."):
        return
    policy.load_tensors({name: torch.zeros_like(one) for name, one in before.items()})
    changed = all(not bool(one.any()) for one in policy.tensors().values())
    policy.load_tensors(before)
    back = all(torch.equal(one, before[name]) for name, one in policy.tensors().items())
    found.expect(changed and back, "load_tensors does not put back what it is given.")
