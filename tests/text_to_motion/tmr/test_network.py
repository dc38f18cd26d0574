"""TMR networks against the recorded outputs of the original."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from motionkit.errors import MotionkitError
from motionkit.nn import stock_keys
from motionkit.text import TextFeatures
from motionkit.text_to_motion.crops import Crop, buckets
from motionkit.text_to_motion.tmr.files import load_tmr, save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, Latent, fold, new_tmr, unfold

from ...made.texts import HashEncoder


class Silent:
    """A text model of the right width that is never asked."""

    name = "silent"
    fingerprint = "0"

    def __init__(self, width):
        self.width = width

    def encode(self, texts):
        raise AssertionError(texts)


@pytest.fixture(scope="module", params=["tiny", "real_L2"])
def case(request, shared):
    folder = shared / "fixtures" / "tmr" / request.param
    io = {k: torch.as_tensor(v) for k, v in np.load(folder / "io.npz").items()}
    tmr = load_tmr(folder, text_model=Silent(io["text_tokens"].shape[2])).requires_grad_(False)
    return tmr, io, folder


def close(a, b, atol):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def test_weights_are_the_recorded_ones(case):
    tmr, _, folder = case
    meta = json.loads((folder / "meta.json").read_text())
    for name in ("text_encoder", "motion_encoder", "motion_decoder"):
        state = stock_keys(getattr(tmr, name).state_dict())
        digest = hashlib.sha256()
        for key, shape in meta["state_dict"][name]:
            assert list(state[key].shape) == shape
            digest.update(state[key].numpy().tobytes())
        assert digest.hexdigest() == meta["weights"][name]["sha256_of_concatenated_float32_bytes_in_state_dict_order"]


def test_latents_of_both_towers(case):
    tmr, io, _ = case
    motion = tmr.encode_motion(io["motion_raw"], io["motion_mask"])
    text = tmr.encode_tokens(TextFeatures(io["text_tokens"], io["text_mask"]))
    for got, name in ((motion.mu, "motion_mu"), (motion.logvar, "motion_logvar"), (text.mu, "text_mu")):
        close(got, io[name], 1e-5)
    close(text.logvar, io["text_logvar"], 1e-5)
    cosine = F.normalize(text.mu, dim=-1) @ F.normalize(motion.mu, dim=-1).T
    close(cosine, io["sim_text_x_motion"], 1e-6)
    close(cosine / 2 + 0.5, io["score_text_x_motion"], 1e-6)
    unit = F.normalize(motion.mu, dim=-1)
    close(unit @ unit.T, io["sim_motion_x_motion"], 1e-6)
    z = motion.mu + io["sample_fact"] * io["sample_eps"] * torch.exp(motion.logvar).sqrt()
    close(z, io["sample_z"], 2e-5)


def test_decoder(case):
    tmr, io, _ = case
    for name in ("motion", "text"):
        decoded = tmr.motion_decoder(io[f"{name}_mu"], io["motion_mask"])
        close(decoded, io[f"decoded_from_{name}_mu"], 1e-5)
        assert bool((decoded[~io["motion_mask"]] == 0).all())


def test_gradient_of_the_cosine(case):
    tmr, io, folder = case
    x = io["motion_norm"].clone().requires_grad_()
    text = tmr.encode_tokens(TextFeatures(io["text_tokens"], io["text_mask"])).mu
    cosine = F.cosine_similarity(tmr.motion_encoder(x, io["motion_mask"]).mu, text)
    close(cosine.detach(), io["pair_cosine_slowpath"], 1e-6)
    cosine.sum().backward()
    assert bool((x.grad[~io["motion_mask"]] == 0).all())
    if folder.name == "tiny":
        close(x.grad, io["grad_of_sum_pair_cosine_wrt_motion_norm"], 1e-5)
    else:
        expected = io["grad_norm_of_sum_pair_cosine_wrt_motion_norm"]
        torch.testing.assert_close(x.grad.norm(), expected, rtol=1e-5, atol=0)


def test_crops_equal_clips_encoded_alone(case):
    tmr, io, _ = case
    sizes = io["motion_lengths"].tolist()
    raw = torch.where(io["motion_mask"][..., None], io["motion_raw"], torch.nan)
    got = tmr.encode_crops(raw, [Crop(i, 0, n) for i, n in enumerate(sizes)])
    close(got.mu, io["motion_mu_single"], 1e-5)
    assert bool(got.finite.all())
    item = int(io["seg_item"])
    segments = tmr.encode_crops(raw, [Crop(item, int(a), int(b - a)) for a, b in io["seg_bounds"].tolist()])
    close(segments.mu, io["seg_mu"], 1e-5)
    score = F.normalize(segments.mu, dim=-1) @ F.normalize(io["text_mu"][:3], dim=-1).T / 2 + 0.5
    close(score, io["seg_score_seg_x_text"], 1e-6)


def test_one_bad_crop_stays_alone(case):
    tmr, io, _ = case
    raw = io["motion_raw"].clone()
    raw[1, 3, 0] = torch.nan
    crops = [Crop(0, 0, 20), Crop(1, 0, 10), Crop(2, 5, 0), Crop(1, 4, 10)]
    got = tmr.encode_crops(raw, crops)
    assert got.finite.tolist() == [True, False, False, True]
    assert bool(got.mu.isfinite().all())
    close(got.mu[0], tmr.encode_crops(raw, crops[:1]).mu[0], 1e-5)


def test_clamping_is_counted(case):
    tmr, io, _ = case
    raw = io["motion_raw"].clone()
    raw[0, 0, 0] = 1e6
    got = tmr.encode_crops(raw, [Crop(0, 0, 10), Crop(2, 0, 10)], clamp=20.0)
    width = raw.shape[2]
    assert got.clamped.tolist() == pytest.approx([1 / (10 * width), 0.0])


def test_nothing_to_encode(case):
    tmr, io, _ = case
    assert tmr.encode_crops(io["motion_raw"], []).mu.shape == (0, tmr.latent)
    assert tmr.encode_crops(io["motion_raw"], [Crop(0, 3, 0)]).finite.tolist() == [False]
    assert tmr.encode_texts([]).shape == (0, tmr.latent)


def test_buckets_name_each_item_once():
    sizes = torch.randint(1, 200, (300,), generator=torch.Generator().manual_seed(0)).tolist()
    groups = buckets(sizes)
    assert sorted(i for group in groups for i in group) == list(range(300))
    padded = sum(len(group) * max(sizes[i] for i in group) for group in groups)
    assert padded < 1.2 * sum(sizes)
    assert max(len(group) for group in buckets([196] * 1000)) * 196 <= 32768


def test_latent_sampling_scale():
    latent = Latent(torch.full((20000, 1), 2.0), torch.full((20000, 1), 2.0 * np.log(3.0)))
    z = latent.sample(torch.Generator().manual_seed(0), scale=0.5)
    assert float(z.mean()) == pytest.approx(2.0, abs=0.05)
    assert float(z.std()) == pytest.approx(1.5, rel=0.02)


def test_fold_and_unfold():
    x = torch.arange(2 * 7 * 3, dtype=torch.float32).reshape(2, 7, 3)
    mask = torch.arange(7) < torch.tensor([7, 4])[:, None]
    dirty = x.masked_fill(~mask[..., None], torch.nan)
    tokens, valid = fold(dirty, mask, 3)
    assert tokens.shape == (2, 3, 9)
    assert valid.tolist() == [[True, True, True], [True, True, False]]
    assert torch.equal(tokens[0, 1], x[0, 3:6].flatten())
    assert tokens[1, 1].tolist() == [*x[1, 3].tolist(), 0, 0, 0, 0, 0, 0]
    assert torch.equal(unfold(tokens, mask, 3), x.masked_fill(~mask[..., None], 0.0))
    assert fold(dirty, mask, 1)[0] is dirty


@pytest.mark.parametrize("patch", [1, 3, 4])
def test_crops_do_not_depend_on_padding_or_company(patch):
    tmr = new_tmr(ActorSizes(7 * patch, 8, 16, 2, 2), torch.zeros(7), torch.ones(7), HashEncoder()).requires_grad_(
        False
    )
    assert tmr.patch == patch
    x = torch.randn(3, 23, 7, generator=torch.Generator().manual_seed(0))
    crops = [Crop(0, 0, 23), Crop(1, 2, 10), Crop(2, 5, 1), Crop(1, 0, 5)]
    together = tmr.encode_crops(x, crops).mu
    for row, crop in zip(together, crops, strict=True):
        piece = x[crop.row, crop.start : crop.start + crop.length][None]
        alone = tmr.encode_motion(piece, torch.ones(1, crop.length, dtype=torch.bool)).mu[0]
        torch.testing.assert_close(row, alone, rtol=0, atol=1e-5)


def test_decoded_padding_is_zero_and_the_folder_keeps_the_patch(tmp_path):
    sizes = ActorSizes(28, 8, 16, 1, 2)
    tmr = new_tmr(sizes, torch.zeros(7), torch.ones(7), HashEncoder(), decoder=True).requires_grad_(False)
    mask = torch.arange(10) < torch.tensor([10, 5])[:, None]
    decoded = tmr.decode(torch.randn(2, 8), mask)
    assert decoded.shape == (2, 10, 7)
    assert bool((decoded[~mask] == 0).all())
    assert bool((decoded[mask] != 0).any(-1).all())
    save_tmr(tmp_path, tmr)
    again = load_tmr(tmp_path, text_model=HashEncoder())
    assert again.patch == 4
    with pytest.raises(MotionkitError, match="reads 7 features per frame"):
        again.check_width(torch.zeros(1, 3, 28))


def test_without_a_decoder():
    tmr = new_tmr(ActorSizes(7, 8, 16, 1, 2), torch.zeros(7), torch.ones(7), HashEncoder())
    with pytest.raises(MotionkitError, match="no motion decoder"):
        tmr.decode(torch.zeros(1, 8), torch.ones(1, 3, dtype=torch.bool))
