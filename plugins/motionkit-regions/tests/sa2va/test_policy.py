"""Sa2VA on a small model of random weights: words, scores, regions, masks, what is trained, and its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS
from motionkit_regions.policy import OffersMasks
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.inputs import grid_of, tiles_of
from motionkit_regions.sa2va.open import open_sa2va
from motionkit_regions.sa2va.policy import Sa2vaPolicy, SeenImages, on_cells
from tests.made.logs import Logs

pytest.importorskip("transformers")
SMALL = {"lora_rank": 4, "lora_alpha": 8.0, "max_words": 10, "max_tiles": 4}


def opened(folder: Path, **options: object) -> Sa2vaPolicy:
    return open_sa2va(Sa2vaOptions.model_validate({"checkpoint": str(folder), **SMALL, **options}))


@pytest.fixture(scope="module")
def policy(composite: Path) -> Sa2vaPolicy:
    made = opened(composite)
    with torch.no_grad():  # adapters of size 0 would hide that they are read
        for name, parameter in made.network.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return made


def regions(policy: Sa2vaPolicy) -> tuple[SeenImages, torch.Tensor]:
    """Three samples of a region of each of two images of other shapes."""
    draw = np.random.default_rng(0)
    images = [draw.integers(0, 255, (*shape, 3), dtype=np.uint8) for shape in ((40, 40), (60, 130))]
    masks = torch.zeros(2, *policy.mask_size, dtype=torch.bool)
    masks[0, 2:9, 3:12], masks[1, 13, 1] = True, True
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    return policy.see(images).select(rows), masks[rows]


def noise(policy: Sa2vaPolicy, rows: int = 6) -> torch.Tensor:
    return torch.rand(rows, policy.longest, generator=torch.Generator().manual_seed(0))


def test_scores_of_bfloat16_weights_are_float32(composite: Path) -> None:
    """Below autocast no logarithm of a probability is rounded to bfloat16."""
    half = opened(composite, dtype="bfloat16")
    seen, masks = regions(half)
    said = half.sample_captions(seen, masks, noise=noise(half))
    with Logs() as logs:
        scores = half.score_words(seen, masks, said.ids, temperature=0.7, whole=True)
        offered = half.candidates(seen, half.prompts(seen, said.texts))
        offered.scores.log_softmax(-1)
        torch.nn.functional.logsigmoid(offered.logits)
    assert logs.half
    assert logs.rough == []
    assert scores.whole is not None
    # Each row is a distribution to the rounding of float32; bfloat16 is off by up to 3e-2.
    assert scores.whole.double().exp().sum(-1).sub(1).abs().max() < 1e-5


def test_scores_are_those_of_the_logits_that_words_were_drawn_from(policy: Sa2vaPolicy) -> None:
    """The words are drawn with a cache from prompts read once; the scores read prompt and words anew."""
    seen, masks = regions(policy)
    drawn: list[torch.Tensor] = []
    plain = policy.language._logits

    def kept(states: torch.Tensor) -> torch.Tensor:
        logits = plain(states)
        drawn.append(logits)
        return logits

    policy.language._logits = kept  # type: ignore[method-assign]
    said = policy.sample_captions(seen, masks, temperature=0.7, noise=noise(policy))
    policy.language._logits = plain  # type: ignore[method-assign]
    scores = policy.score_words(seen, masks, said.ids, temperature=0.7)
    raw = torch.stack(drawn, 1)[:, : said.ids.shape[1]] / 0.7
    wanted = raw.log_softmax(-1).gather(-1, said.ids[..., None])[..., 0]
    assert (scores.log_prob - wanted)[scores.mask].abs().max() < 1e-5
    assert scores.log_prob[~scores.mask].eq(0).all()
    chances = raw.softmax(-1)
    entropy = -(chances * chances.clamp(min=1e-30).log()).sum(-1)
    assert (scores.entropy - entropy)[scores.mask].abs().max() < 1e-5


def test_words_are_those_of_generate(policy: Sa2vaPolicy) -> None:
    """Greedy words, and their raw logits, beside transformers' own generation."""
    seen, masks = regions(policy)
    said = policy.sample_captions(seen, masks, temperature=0.0)
    for row in (0, 3):
        prompt = policy._about_regions(seen.select(torch.tensor([row])), masks[row : row + 1])[0]
        found = policy.language.model.generate(
            inputs_embeds=prompt[None], attention_mask=torch.ones(1, len(prompt), dtype=torch.int64), do_sample=False,
            max_new_tokens=policy.longest, eos_token_id=policy.words.end, pad_token_id=policy.words.end,
            suppress_tokens=policy.words.barred.nonzero()[:, 0].tolist(), output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        ids = found.sequences[0]
        assert ids.tolist() == said.ids[row, : len(ids)].tolist()
        scores = policy.score_words(seen.select(torch.tensor([row])), masks[row : row + 1], ids[None])
        logits = torch.stack(found.logits, 1)[0].masked_fill(policy.words.barred, -torch.inf)
        wanted = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        assert (scores.log_prob[0] - wanted).abs().max() < 1e-5


def test_a_row_is_the_same_alone_and_beside_longer_prompts(policy: Sa2vaPolicy) -> None:
    seen, masks = regions(policy)
    policy = Sa2vaPolicy(policy.parts, policy.words._tokenizer, policy.options.model_copy(update={"rows": 6}),
                         policy.base)  # fmt: skip
    said = policy.sample_captions(seen, masks, noise=noise(policy))
    scores, prompts = policy.score_words(seen, masks, said.ids), policy.prompts(seen, said.texts)
    drawn = policy.draw(seen, prompts)
    for row in range(6):
        one, part = seen.select(torch.tensor([row])), slice(row, row + 1)
        alone = policy.sample_captions(one, masks[part], noise=noise(policy)[part])
        assert alone.texts == said.texts[part]
        again = policy.score_words(one, masks[part], said.ids[part]).log_prob
        assert torch.allclose(again, scores.log_prob[part], atol=1e-5)
        assert torch.allclose(policy.prompts(one, said.texts[part]), prompts[part], atol=1e-5)
        assert torch.allclose(policy.draw(one, prompts[part]), drawn[part], atol=1e-4)


def test_rows_at_once_and_checkpointing_change_no_gradient(composite: Path) -> None:
    found = []
    for options in ({"rows": 6}, {"rows": 2}, {"rows": 2, "gradient_checkpointing": True}):
        made = opened(composite, **options)
        seen, masks = regions(made)
        named = [(name, one) for name, one in made.network.named_parameters() if name in made.tensors()]
        for _, parameter in named:
            parameter.requires_grad_(True)
        ids = made.encode(["a red circle", "a blue square at the top", "white"] * 2)
        scores = made.score_words(seen, masks, ids)
        logits = made.draw(seen, made.prompts(seen, ["a red circle", "it"] * 3))
        (scores.log_prob.sum() + logits.square().mean()).backward()
        found.append({name: one.grad for name, one in named})
    for other in found[1:]:
        for name, gradient in found[0].items():
            same = other[name]
            assert (gradient is None) == (same is None), name
            if gradient is not None and same is not None:
                assert torch.allclose(gradient, same, atol=1e-5), name


def test_the_mask_is_read(policy: Sa2vaPolicy) -> None:
    seen, masks = regions(policy)
    ids = policy.encode(["a red circle"] * 6)
    here, there = policy.score_words(seen, masks, ids), policy.score_words(seen, masks.roll(5, -1), ids)
    assert (here.log_prob - there.log_prob).abs().max() > 1e-4


def test_a_region_too_small_for_a_cell_does_not_vanish(policy: Sa2vaPolicy) -> None:
    masks = torch.zeros(3, 16, 16, dtype=torch.bool)
    masks[0, 3, 5], masks[1, 4:, 4:] = True, True
    cells = on_cells(masks, 4)
    assert cells[0].nonzero().tolist() == [[0, 1]]
    assert torch.equal(cells[1], torch.nn.functional.interpolate(masks[1:2, None].float(), (4, 4))[0, 0] > 0)
    assert not cells[2].any()
    seen, _ = regions(policy)
    empty = policy.sample_captions(seen, torch.zeros(6, 16, 16, dtype=torch.bool), noise=noise(policy))
    assert len(empty.texts) == 6  # says something; the loop takes it for nothing


def test_a_caption_is_no_prompt(policy: Sa2vaPolicy) -> None:
    words = policy.words
    assert words.plain("a [SEG]<|im_end|> b").split() == ["a", "b"]
    assert "[SEG]" not in words.plain("[S[SEG]EG]")
    ids = words.about_mask(4, "a red circle [SEG] <|im_end|> <IMG_CONTEXT>.")
    assert (ids.count(words.seg), ids.count(words.image), ids[-1]) == (1, 4, words.seg)
    said = policy.sample_captions(*regions(policy), temperature=50.0, noise=noise(policy))
    assert not policy.words.barred[said.ids].any()
    long = words.encode(["a red circle at the top left in the picture of the image"])
    assert (long.shape[1], int(long[0, -1])) == (policy.longest, words.end)


def test_a_caption_that_does_not_end_is_told(composite: Path) -> None:
    policy = opened(composite)
    seen, masks = regions(policy)
    with torch.no_grad():  # the end is never said
        policy.language.model.get_output_embeddings().weight[policy.words.end] = 0
        policy.language.model.model.norm.weight.mul_(20)
    said = policy.sample_captions(seen, masks, noise=noise(policy))
    cut = ~said.ended
    assert cut.any()
    assert policy.score_words(seen, masks, said.ids).mask[cut].all()


def test_what_is_trained(policy: Sa2vaPolicy) -> None:
    names = policy.tensors().keys()
    heads = {name.split(".")[0] for name in names}
    assert heads == {"mlp1", "language_model", "text_hidden_fcs", "grounding_encoder"}
    assert all("lora_" in name for name in names if name.startswith("language_model"))
    assert not any("conv_s" in name or "vision_encoder" in name for name in names)
    assert any("mask_decoder.iou_prediction_head" in name for name in names)
    assert isinstance(policy, OffersMasks)
    seen, _ = regions(policy)
    offered = policy.candidates(seen, policy.prompts(seen, ["a red circle"] * 6))
    assert offered.logits.shape == (6, 3, 16, 16)
    assert offered.scores.shape == (6, 3)


def test_adapters_change_nothing_at_first(composite: Path) -> None:
    found = []
    for rank in (0, 4):
        made = opened(composite, lora_rank=rank)
        found.append(made.score_words(*regions(made), made.encode(["a red circle"] * 6)).log_prob)
    assert torch.equal(*found)


def test_a_folder_knows_its_base_and_its_options(policy: Sa2vaPolicy, composite: Path, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy", tensors=policy.tensors())
    again = open_sa2va(Sa2vaOptions(checkpoint=str(tmp_path / "policy")))
    assert (again.options.lora_rank, again.longest) == (4, 10)
    seen, masks = regions(policy)
    ids = policy.encode(["a red circle"] * 6)
    assert torch.equal(again.score_words(seen, masks, ids).log_prob, policy.score_words(seen, masks, ids).log_prob)
    stored = tmp_path / "policy" / TENSORS
    assert stored.stat().st_size < 200_000  # the trained weights alone

    document = json.loads((tmp_path / "policy" / "policy.json").read_text())
    document["base"]["place"] = "/nowhere"
    (tmp_path / "policy" / "policy.json").write_text(json.dumps(document))
    with pytest.raises(MotionkitError) as caught:
        open_sa2va(Sa2vaOptions(checkpoint=str(tmp_path / "policy")))
    assert "--policy.base" in str(caught.value.fix)
    open_sa2va(Sa2vaOptions(checkpoint=str(tmp_path / "policy"), base=str(composite)))


def test_another_base_is_refused(policy: Sa2vaPolicy, composite: Path, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy", tensors=policy.tensors())
    other = tmp_path / "other"
    shutil.copytree(composite, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "template": "internlm2_chat"}))
    with pytest.raises(MotionkitError, match="is not the model"):
        open_sa2va(Sa2vaOptions(checkpoint=str(tmp_path / "policy"), base=str(other)))


def config(**change: object) -> Callable[[Path], None]:
    def write(model: Path) -> None:
        path = model / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    return write


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "template": (config(template="no_chat"), "no_chat"),
    "sizes": (config(vision_config={"hidden_size": 16}), "describes no Sa2VA model|does not fit"),
    "type": (config(model_type="bert"), "bert"),
    "half of the weights": (lambda model: halve(model / "model.safetensors"), "does not fit"),
    "index": (lambda model: (model / "model.safetensors.index.json").write_text("{}"), "weight_map"),
    "no weights": (lambda model: (model / "model.safetensors").unlink(), "model.safetensors"),
    "no folder": (shutil.rmtree, "no model"),
}


@pytest.mark.parametrize(("change", "word"), REFUSED.values(), ids=REFUSED)
def test_a_damaged_model_is_refused(
    composite: Path, tmp_path: Path, change: Callable[[Path], object], word: str
) -> None:
    shutil.copytree(composite, tmp_path / "model")
    change(tmp_path / "model")
    with pytest.raises(MotionkitError, match=word):
        opened(tmp_path / "model")


def test_tiles() -> None:
    """The grid whose aspect is closest; by hand for the published sizes of 448 and at most 12 tiles."""
    assert grid_of(448, 448, 448, 12) == (1, 1)
    assert grid_of(640, 480, 448, 12) == (4, 3)  # 1.33, exactly
    assert grid_of(2000, 2000, 448, 12) == (3, 3)  # large: of 1, 4 and 9 equal tiles the most that it half fills
    assert grid_of(600, 600, 448, 12) == (1, 1)
    assert grid_of(3000, 100, 448, 6) == (6, 1)
    image = np.zeros((60, 130, 3), np.uint8)
    image[:, :65] = 255
    tiles = tiles_of(image, 32, 4)
    assert tiles.shape == (3, 3, 32, 32)  # two tiles, and the thumbnail
    assert tiles[0].mean() > 1.5 > -1.5 > tiles[1].mean()
    assert tiles_of(image, 32, 1).shape == (1, 3, 32, 32)
