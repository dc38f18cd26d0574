"""Several frames per token."""

from __future__ import annotations

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.tmr.files import load_tmr, save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, fold, new_tmr, unfold

from ...made.texts import HashEncoder


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
