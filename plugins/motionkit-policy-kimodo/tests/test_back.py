"""Motions brought to SOMA, and back to HumanML3D's features for rewards: what is lost, on the starter and on people.

pytest -m "slow or benchmark" -s plugins/motionkit-policy-kimodo/tests/test_back.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copy

import pytest
import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence
from typer.testing import Result

from motionkit import load_dataset
from motionkit.contracts.dataset import TextClip
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.tmr.files import open_tmr
from motionkit_policy_kimodo.clips import encode_clips
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body

CMU = Path(__file__).parents[4] / "shared" / "data" / "cmu" / "bvh"
SOMA = KimodoRepresentation(body("soma30"))


def _batch(features: Sequence[torch.Tensor], skeleton: object, fps: float) -> MotionBatch:
    lengths = torch.tensor([len(rows) for rows in features])
    return MotionBatch(pad_sequence(list(features), True), lengths, skeleton=skeleton, fps=fps)  # type: ignore[arg-type]


@torch.no_grad()
def _lost(clips: Sequence[TextClip]) -> dict[str, float]:
    """Return how far joints are from where they were beside the pelvis, and what the starter's TMR says of it."""
    before = _batch([clip.features for clip in clips], HUMANML, HUMANML.fps)
    back = _batch(encode_clips(clips, HUMANML, HUMANML.fps, SOMA), SOMA, SOMA.fps).humanml
    crops = [Crop(row, 0, length) for row, length in enumerate(torch.minimum(before.lengths, back.lengths).tolist())]
    beside = [motions.joints - motions.joints[:, :, :1] for motions in (before, back)]
    off = [(beside[0][c.row, : c.length] - beside[1][c.row, : c.length]).norm(dim=-1).mean() for c in crops]
    tmr = open_tmr("starter")
    first, second = (normalize(tmr.encode_crops(motions.features, crops).mu, dim=-1) for motions in (before, back))
    said = {"joints, cm": 100 * float(torch.stack(off).mean()), "cosine": float((first * second).sum(1).mean())}
    if len({clip.captions for clip in clips}) == 1:
        return said
    texts = normalize(tmr.encode_texts([clip.captions[0] for clip in clips]), dim=-1)
    for name, motions in (("before", first), ("back", second)):
        found = texts @ motions.T
        said[f"cosine to the text, {name}"] = float(found.diagonal().mean())
        said[f"R@3, {name}"] = float(((found > found.diagonal()[:, None]).sum(1) < 3).float().mean())
    return said


def _print(name: str, clips: Sequence[TextClip], said: dict[str, float]) -> None:
    print(f"\n{name}, {len(clips)} clips:", ", ".join(f"{key} {value:.2f}" for key, value in said.items()))  # noqa: T201


@pytest.mark.slow
def test_clips_of_the_starter() -> None:
    clips = list(load_dataset("starter").clips("val"))[:48]
    said = _lost(clips)
    _print("starter", clips, said)
    assert said["joints, cm"] < 3
    assert said["cosine to the text, back"] > 0.6
    assert said["R@3, back"] > 0.7


@pytest.mark.benchmark
@pytest.mark.timeout(1200)
def test_captured_people(cli: Callable[..., Result], tmp_path: Path) -> None:
    if not CMU.is_dir():
        pytest.skip("../shared/data/cmu is not here")
    (tmp_path / "bvh").mkdir()
    for path in sorted(CMU.glob("*.bvh"))[::12]:
        copy(path, tmp_path / "bvh")
    lines = [f"{path.stem},a person moves." for path in (tmp_path / "bvh").iterdir()]
    (tmp_path / "captions.csv").write_text("\n".join(["clip,caption", *lines]))
    words = ("--to", "humanml", "--long", "first", "--jobs", "1", "--captions", str(tmp_path / "captions.csv"))
    done = cli("convert", str(tmp_path / "bvh"), str(tmp_path / "out"), *words)
    assert done.exit_code == 0, done.output
    dataset = load_dataset("humanml", root=tmp_path / "out")
    clips = [clip for split in ("train", "val", "test") for clip in dataset.clips(split)]  # type: ignore[arg-type]
    said = _lost(clips)
    _print("CMU", clips, said)
    assert said["joints, cm"] < 6
