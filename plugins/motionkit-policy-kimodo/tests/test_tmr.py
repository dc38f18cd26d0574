"""TMR-SOMA: features, embeddings, gradient and the benchmark's rows against the recorded ones, and by hand."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from motionkit.errors import MotionkitError
from motionkit.geometry import yaw_matrix
from motionkit.rl import length_mask
from motionkit.text import TextFeatures
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body, to_soma77
from motionkit_policy_kimodo.texts import KNOWN, TextTable, write_vectors
from motionkit_policy_kimodo.tmr import Retrieval, benchmark, read_retrieval, scores

Tensors = Callable[[str], dict[str, Tensor]]
LIMITS = {"atol": 6e-6, "rtol": 0}


def _texts(opened: Retrieval, text: Tensor) -> Tensor:
    features = TextFeatures(text, torch.ones(text.shape[:2], dtype=torch.bool))
    return functional.normalize(opened.model.encode_tokens(features).mu, dim=-1)


def test_recorded(recorded: Path, tensors: Tensors) -> None:
    opened, known = read_retrieval(str(recorded / "tiny_tmr")), tensors("tiny_tmr/io.npz")
    lengths, mask = known["lengths"], length_mask(known["lengths"], known["posed_joints"].shape[1])
    joints = known["posed_joints"].masked_fill(~mask[..., None, None], math.nan).requires_grad_()
    assert_close(opened.features(joints, lengths, canonical=False)[mask], known["features_raw"][mask], **LIMITS)
    normalised = opened.model.normalize(opened.features(joints, lengths))
    assert_close(normalised[mask], known["features_normalised"][mask], **LIMITS)
    latent = opened.latent(joints, lengths)
    assert_close(latent.mu, known["motion_mu"], **LIMITS)
    assert_close(latent.logvar, known["motion_logvar"], **LIMITS)
    motions, texts = opened.motions(joints, lengths), _texts(opened, known["text"])
    assert_close(motions, known["motion_unit"], **LIMITS)
    assert_close(texts, known["text_unit"], **LIMITS)
    assert_close(2 * scores(texts, motions) - 1, known["cosine"], **LIMITS)
    (texts * motions).sum().backward()
    assert_close(joints.grad, known["grad_of_sum_cosine"], **LIMITS)


@pytest.mark.slow
def test_released_size(released_tmr: Path, tensors: Tensors, meta: Callable[[str], dict[str, Any]]) -> None:
    about, known, joints = meta("full_tmr"), tensors("full_tmr/io.npz"), tensors("tiny_tmr/io.npz")["posed_joints"]
    assert about["config"].items() >= {"latent_dim": 256, "ff_size": 1024, "num_layers": 6, "num_heads": 4}.items()
    opened = read_retrieval(str(released_tmr))
    encoders = opened.model.motion_encoder, opened.model.text_encoder
    counts = [sum(value.numel() for value in encoder.parameters()) for encoder in encoders]
    assert counts == [4_786_944, 5_787_904]
    latent = opened.latent(joints, known["lengths"])
    assert_close(latent.mu, known["motion_mu"], **LIMITS)
    assert_close(latent.logvar, known["motion_logvar"], **LIMITS)
    texts, motions = _texts(opened, known["text"]), opened.motions(joints, known["lengths"])
    assert_close(texts, known["text_unit"], **LIMITS)
    assert_close(motions, known["motion_unit"], **LIMITS)
    assert_close((texts * motions).sum(-1), known["cosine"], **LIMITS)


def test_benchmark(recorded: Path, tensors: Tensors) -> None:
    known = tensors("metrics.npz")
    rows = benchmark(known["text"], known["motion"], known["gt"])
    expected = json.loads((recorded / "retrieval_metrics.json").read_text())
    names = {name: name.removeprefix("TMR/").replace("_R/", "_").replace("/", "_") for name in expected}
    assert {name for name in names.values() if not name.endswith("len")} == rows.keys()
    for name, ours in names.items():
        if ours in rows:
            assert rows[ours] == pytest.approx(expected[name], abs=0.0051 if "R/R" in name else 1e-9)
    assert benchmark(known["text"], None, known["gt"]).items() <= rows.items()
    assert {name.partition("_")[0] for name in benchmark(known["text"], known["motion"], None)} == {"t2m", "FID"}


class _Flat:
    """Reads no weights: the features alone."""


def _features() -> Retrieval:
    return Retrieval(_Flat(), KimodoRepresentation(body("soma30")))  # type: ignore[arg-type]


def _walk() -> Tensor:
    made = body("soma30")
    local = torch.eye(3).repeat(8, 30, 1, 1)
    local[:, 0] = yaw_matrix(torch.linspace(0.2, 1.0, 8))
    root = torch.stack([torch.linspace(0, 1, 8), torch.ones(8), torch.linspace(2, 4, 8)], dim=1)
    return made.joints(made.world(local), root)


def test_a_place_and_a_turn_change_nothing() -> None:
    joints, lengths = _walk(), torch.tensor([8, 8])
    moved = (yaw_matrix(torch.tensor(2.5)) @ joints[..., None]).squeeze(-1) + torch.tensor([3.0, 0.0, -5.0])
    features = _features().features(torch.stack([joints, moved]), lengths)
    assert_close(features[0], features[1], atol=1e-4, rtol=0)
    assert_close(features[:, 0, [0, 2]], torch.zeros(2, 2))
    assert_close(features[:, 0, 3:5], torch.tensor([[1.0, 0.0]] * 2), atol=1e-5, rtol=0)
    # In a body's own heading the left shoulder stays where it is.
    arm = body("soma30").joint_names.index("LeftArm") - 1
    left = features[0, :, 5 + 3 * arm : 8 + 3 * arm]
    assert_close(left, left[:1].expand(8, -1), atol=1e-4, rtol=0)
    assert float(left[0, 0]) > 0.1


def test_soma77_is_cut() -> None:
    small, large = body("soma30"), body("soma77")
    local = torch.eye(3).repeat(1, 5, 30, 1, 1)
    root = torch.linspace(0, 1, 5)[None, :, None].expand(1, 5, 3)
    lengths = torch.tensor([5])
    one = _features().features(small.joints(small.world(local), root), lengths)
    other = _features().features(large.joints(large.world(to_soma77(local)), root), lengths)
    hands = [place for place, name in enumerate(small.joint_names[1:]) if name.endswith("End")]
    same = torch.ones(186, dtype=torch.bool)
    for place in hands:  # relaxed fingers
        same[5 + 3 * place : 8 + 3 * place] = False
    assert_close(one[..., same], other[..., same], atol=1e-4, rtol=0)


def test_texts_come_from_the_table(recorded: Path, tmp_path: Path, tensors: Tensors) -> None:
    known = tensors("tiny_tmr/io.npz")["text"]
    vectors = {KNOWN: known[0, 0], "Wave.": known[1, 0]}
    write_vectors(tmp_path / "texts.safetensors", vectors, encoder="llm2vec")
    opened = read_retrieval(str(recorded / "tiny_tmr"), TextTable(tmp_path / "texts.safetensors"))
    assert_close(opened.texts(["wave"])[0], tensors("tiny_tmr/io.npz")["text_unit"][1], **LIMITS)
    assert opened.texts([""]).isfinite().all()
    with pytest.raises(MotionkitError, match="no vector for 'Jump"):
        opened.texts(["jump"])


def test_others_are_refused(checkpoint: Path, recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match=r"no retrieval model .*, but a policy"):
        read_retrieval(str(checkpoint))
    with pytest.raises(MotionkitError, match="30 or 77 joints of SOMA, these motions have 34"):
        _features().features(torch.zeros(1, 4, 34, 3), torch.tensor([4]))
    copy = tmp_path / "copy"
    shutil.copytree(recorded / "tiny_tmr", copy)
    (copy / "last_weights" / "text_encoder.pt").unlink()
    with pytest.raises(MotionkitError, match="text_encoder"):
        read_retrieval(str(copy))
    np.save(copy / "stats" / "motion" / "body" / "std.npy", np.ones(180, dtype=np.float32))
    with pytest.raises(MotionkitError, match="has the shape"):
        read_retrieval(str(copy))
