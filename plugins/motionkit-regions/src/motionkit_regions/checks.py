"""The contracts of self-play: policies and datasets of regions, and loops."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit import plugins
from motionkit.config import choose_one
from motionkit.motion.corpus.ids import Split
from motionkit.nn.lora import names_by_group
from motionkit.plugins import Component
from motionkit.rl import RowNoise
from motionkit.testing import SPLITS, TOLERANCE, Findings, check_component, component_of, is_near, options_of
from motionkit_regions.datasets.base import KnowsScenes, RegionDataset, Regions
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.evaluation.known import Truth
from motionkit_regions.evaluation.measure import Task, masks_at, open_task
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.self_play.loop import Played, Turn

_REGIONS, _GROUP = 2, 4  # regions of a task of self-play, samples of each


def check_region_policy(
    policy: str | Component | RegionPolicy,
    *,
    options: dict[str, Any] | None = None,
    images: Sequence[NDArray[np.uint8]] | None = None,
    captions: Sequence[str] = (),
) -> None:
    """Check what `sa2va-rl` relies on in every policy of regions.

    Captions depend on the noise only, not on the rest of the batch; the log-probabilities of sampled words are finite,
    0 in the padding, and the same alone and in a batch; so are masks; a gradient reaches each of its groups; its
    weights can be restored, and a saved folder opens with them.

    Args:
        policy: Its name, its component, or a loaded policy.
        options: Options to build it with.
        images: At least two images ``[H, W, 3]`` uint8; by default the built-in shapes, 48 x 48 pixels.
        captions: A text for each image in words that it knows.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    if isinstance(policy, str):
        check_component("policies", policy)
    component = component_of("policies", policy) if isinstance(policy, (str, Component)) else None
    built = (
        policy
        if component is None
        else plugins.build("policies", component, options_of(component, options), device="cpu")
    )
    findings = Findings(f"policy {type(built).__name__!r}")
    _check_policy(findings, cast("RegionPolicy", built), images, captions)
    if component is not None:
        _check_saved(findings, cast("RegionPolicy", built), component, options or {})
    findings.close()


def _check_policy(
    findings: Findings, policy: RegionPolicy, images: Sequence[NDArray[np.uint8]] | None, captions: Sequence[str]
) -> None:
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


def _check_saved(findings: Findings, policy: RegionPolicy, component: Component, options: dict[str, Any]) -> None:
    """Add a violation if a saved policy opens with other weights."""
    if "checkpoint" not in component.options.model_fields:
        return
    with TemporaryDirectory() as place:
        policy.save(Path(place), tensors=policy.tensors())
        checked = component.options.model_validate({**options, "checkpoint": place})
        again = plugins.build("policies", component, checked, device="cpu", dataset=None).tensors()
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
    drawn = Shapes().regions("val", np.arange(4))
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


def check_region_dataset(
    dataset: str | Component | RegionDataset, *, options: dict[str, Any] | None = None, clips: int = 16
) -> None:
    """Check what trainers rely on in every dataset of regions.

    A region is the same in every order and at every call, with an image ``[H, W, 3]`` uint8, a mask ``[h, w]`` bool
    that is not empty, and a caption; no image is in two splits; areas and captions of absent objects, if it offers
    them, have one entry for each region.

    Args:
        dataset: Its name, its component, or an open dataset.
        options: Options to build it with.
        clips: Number of regions of each split to check.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    if isinstance(dataset, str):
        check_component("datasets", dataset)
    if isinstance(dataset, (str, Component)):
        component = component_of("datasets", dataset)
        dataset = cast("RegionDataset", plugins.build("datasets", component, options_of(component, options)))
    plugins.complete(dataset, RegionDataset)
    # What is checked may lack it.
    findings = Findings(f"dataset {getattr(dataset, 'name', type(dataset).__name__)!r}")
    owners: dict[int, str] = {}
    total = 0
    for word in SPLITS:
        split = cast("Split", word)
        count = dataset.count(split)
        if not findings.expect(
            isinstance(count, int) and count >= 0, f"count({word!r}) must be 0 or more, is {count!r}."
        ):
            continue
        total += count
        number = min(count, clips)
        if number:
            _check_region_split(findings, dataset, split, number, owners)
    findings.expect(total > 0, "It has no regions at all.")
    findings.close()


def _check_region_split(
    findings: Findings, dataset: RegionDataset, split: Split, number: int, owners: dict[int, str]
) -> None:
    index = np.arange(number)
    regions = dataset.regions(split, index)
    where = f"regions({split!r}, ...)"
    sizes = {len(regions.images), len(regions.masks), len(regions.captions)}
    if not findings.expect(sizes == {number}, f"{where} must have {number} images, masks and captions."):
        return
    for place in range(number):
        _check_one(findings, regions, place, f"Region {place} of {split!r}")
    turned = dataset.regions(split, index[::-1].copy())
    same = all(_alike(regions, place, turned, number - 1 - place) for place in range(number))
    findings.expect(same, f"{where} gives other regions in another order, or the second time.")
    for place, image in enumerate(regions.images):
        mark = zlib.crc32(np.ascontiguousarray(image).tobytes())
        owner = owners.setdefault(mark, split)
        findings.expect(owner == split, f"The image of region {place} of {split!r} is in {owner!r} as well.")
    if (given := dataset.areas(split)) is not None:
        areas = np.asarray(given)
        fits = areas.shape == (dataset.count(split),) and bool(((areas > 0) & (areas <= 1)).all())
        findings.expect(fits, f"areas({split!r}) must be one number above 0 up to 1 for each region.")
    if (absent := dataset.absent(split, index)) is not None:
        named = list(absent)
        fits = len(named) == number and all(isinstance(text, str) and text.strip() for text in named)
        findings.expect(fits, f"absent({split!r}, ...) must give a caption for each region.")
    if isinstance(dataset, KnowsScenes):
        _check_scenes(findings, dataset, split, index, regions.captions)


def _check_scenes(
    findings: Findings, dataset: KnowsScenes, split: Split, index: NDArray[np.int64], captions: Sequence[str]
) -> None:
    where, kinds = f"scenes({split!r}, ...)", set(dataset.attributes)
    scenes = list(dataset.scenes(split, index))
    if not findings.expect(bool(kinds) and len(scenes) == len(index), f"{where} must give a scene for each region."):
        return
    for place, scene in enumerate(scenes):
        fits = 0 <= scene.meant < len(scene.things) and all(set(thing.attributes) == kinds for thing in scene.things)
        message = (
            f"{where}: the things of scene {place} must have the attributes {sorted(kinds)}, and one must be meant."
        )
        if not findings.expect(fits, message):
            return
    wrong = Truth(dataset, scenes).score(captions)["attributes_wrong"] > 0
    # People make mistakes; scenes of other objects, or misread words, would be wrong most of the time.
    message = (
        f"{where} and read(...): {int(wrong.sum())} of {len(wrong)} captions of the data are not true of their object."
    )
    findings.expect(2 * int(wrong.sum()) <= len(wrong), message)


def _check_one(findings: Findings, regions: Regions, place: int, where: str) -> None:
    image, mask, caption = regions.images[place], regions.masks[place], regions.captions[place]
    fits = image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8
    findings.expect(fits, f"{where}: the image must be [H, W, 3] uint8, is {list(image.shape)} {image.dtype}.")
    fits = mask.ndim == 2 and mask.dtype == np.bool_
    if findings.expect(fits, f"{where}: the mask must be [h, w] bool, is {list(mask.shape)} {mask.dtype}."):
        findings.expect(bool(mask.any()), f"{where} has an empty mask: leave such rows out.")
    findings.expect(bool(caption.strip()), f"{where} has no caption.")


def _alike(first: Regions, row: int, second: Regions, other_row: int) -> bool:
    return (
        np.array_equal(first.images[row], second.images[other_row])
        and np.array_equal(first.masks[row], second.masks[other_row])
        and first.captions[row] == second.captions[other_row]
    )


def check_loop(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `sa2va-rl` relies on in every loop, by playing it with the starter's policy on drawn shapes.

    Its results have a row for each sample; before any update every ratio is 1 and every KL 0; the log-ratios have a
    gradient; the same noise gives the same samples.

    Args:
        name: Name of the loop.
        options: Its options.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("loops", name)
    findings = Findings(f"loop {name!r}")
    policy: RegionPolicy = choose_one("policies", "tiny-sa2va", {}).build(device="cpu", dataset=None)
    loop = choose_one("loops", name, dict(options or {})).build(policy=policy)
    task = _task(policy)
    measured = loop.measure(task)

    def play() -> Played:
        noise = RowNoise((0,), len(task.captions))
        played: Played = loop.play(task, Turn(nullcontext, nullcontext, noise, 1.0, measured))
        return played

    played = play()
    count = len(task.captions)
    findings.expect(len(played.made.masks) == count, f"made.masks has {len(played.made.masks)} rows, not {count}.")
    findings.expect(len(played.made.texts) == count, f"made.texts has {len(played.made.texts)} rows, not {count}.")
    findings.close()
    again = play()
    same = torch.equal(again.made.masks.masks, played.made.masks.masks)
    same = same and list(again.made.texts.texts) == list(played.made.texts.texts)
    findings.expect(same, "The same noise gives other samples; draw from turn.noise alone.")
    for parameter in policy.network.parameters():
        parameter.requires_grad_(True)
    if played.direct is not None:
        loss = played.direct(torch.zeros(count))
        findings.expect(tuple(loss.shape) == (count,), f"direct gives {tuple(loss.shape)}, not ({count},).")
    else:
        terms = played.terms()
        shape = tuple(terms.log_ratio.shape)
        findings.expect(shape[:1] == (count,) and len(shape) == 2, f"log_ratio is {shape}, not ({count}, S).")
        for part in (terms.kl, terms.mask):
            findings.expect(tuple(part.shape) == shape, f"a term is {tuple(part.shape)}, log_ratio {shape}.")
        off = float(terms.log_ratio.detach()[terms.mask].abs().max())
        findings.expect(off < 1e-4, f"Before any update the log-ratio is {off}, not 0.")
        findings.expect(float(terms.kl.detach()[terms.mask].abs().max()) < 1e-4, "Before any update the KL is not 0.")
        loss = terms.log_ratio.sum()
    findings.expect(loss.requires_grad, "The log-ratios have no gradient; compute them anew in terms().")
    findings.close()


def _task(policy: RegionPolicy) -> Task:
    data = choose_one("datasets", "shapes", {}).build()
    return open_task(policy, data.regions("train", np.arange(_REGIONS))).repeated(_GROUP)
