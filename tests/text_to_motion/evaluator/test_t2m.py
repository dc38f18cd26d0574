"""The text-to-motion evaluator's networks against the recorded outputs of the original."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.evaluator.files import build, split_file
from motionkit.text_to_motion.evaluator.model import (
    EvaluatorSizes,
    MotionEncoder,
    MovementEncoder,
    Sentences,
    T2MEvaluator,
    TextEncoder,
    WordTable,
)

from ...made.evaluators import WORDS, networks
from ...made.recorded import by_formula

KINDS = {"movement_encoder": MovementEncoder, "text_encoder": TextEncoder, "motion_encoder": MotionEncoder}


def words(width=300):
    vectors = torch.randn(len(WORDS), width, generator=torch.Generator().manual_seed(0))
    return WordTable(vectors, {word: row for row, word in enumerate(WORDS)})


def assembled(parts, sizes, mean=None, std=None):
    mean = torch.zeros(sizes.features) if mean is None else mean
    std = torch.ones(sizes.features) if std is None else std
    return T2MEvaluator(
        parts["movement_encoder"], parts["motion_encoder"], parts["text_encoder"], mean, std, words(), sizes=sizes
    ).eval()


@pytest.fixture(scope="module", params=["tiny", "full"])
def case(request, shared):
    folder = shared / "fixtures" / "mdm" / f"evaluator_{request.param}_t2m"
    io = {key: torch.as_tensor(value) for key, value in np.load(folder / "io.npz").items()}
    if request.param == "tiny":
        file = folder / "checkpoints/t2m/text_mot_match/model/finest.tar"
        parts = split_file(weights.read(file), str(file))
    else:
        meta = json.loads((folder / "meta.json").read_text())
        parts = {name: by_formula(meta["seeds"][name], meta["shapes"][name]) for name in KINDS}
    for name in KINDS:
        sums = torch.stack([tensor.double().sum() for tensor in parts[name].values()])
        torch.testing.assert_close(sums, io[f"{name}.checksum"], rtol=0, atol=1e-9)
    nets = build(parts, "fixture")
    built = {"movement_encoder": nets.movement, "motion_encoder": nets.motion, "text_encoder": nets.text}
    return assembled(built, nets.sizes).requires_grad_(False), io


def close(a, b, atol=4e-6):
    """Compare by the largest recorded value: processors add the same float32 numbers in other orders.

    On the kinds of processor that were tried, latents of up to 130 differ by 1.8e-4, embeddings of up to 4 by 5e-6.
    """
    torch.testing.assert_close(a, b, rtol=0, atol=atol * max(1.0, float(b.abs().max())))


def test_latents_of_both_towers(case):
    """In the order of the inputs, whose lengths are not sorted."""
    model, io = case
    movements = model.movement_encoder(io["motions"], io["m_lens"])
    recorded = io["movements"]
    for row, length in enumerate(io["m_lens"].tolist()):
        steps = length // 4
        close(movements[row, :steps, :: movements.shape[2] // recorded.shape[2]], recorded[row, :steps])
    close(model.encode_normalized(io["motions"], io["m_lens"]), io["motion_embedding"])
    close(model.encode_motions(io["motions"], io["m_lens"]), io["motion_embedding"])
    close(model.encode_sentences(Sentences(io["word_embs"], io["pos_ohot"], io["cap_lens"])), io["text_embedding"])


def test_the_original_returns_the_same_in_another_order(case):
    model, io = case
    ours = model.encode_normalized(io["motions"], io["m_lens"])
    close(ours[io["align_idx"]], io["wrapper_motion_embedding"])


def test_crops_equal_motions_with_zeros_after(case):
    model, io = case
    lengths = io["m_lens"].tolist()
    filled = io["motions"] + torch.where(torch.arange(196)[None, :, None] < io["m_lens"][:, None, None], 0.0, 7.0)
    got = model.encode_crops(filled, [Crop(row, 0, length) for row, length in enumerate(lengths)])
    close(got.mu, io["motion_embedding"])
    assert got.finite.all()


SIZES = EvaluatorSizes(263, 12, 10, 8, 8, 6)


@pytest.fixture
def small():
    generator = torch.Generator().manual_seed(3)
    mean, std = torch.randn(263, generator=generator), torch.rand(263, generator=generator) + 0.5
    return assembled(networks(SIZES), SIZES, mean, std).requires_grad_(False)


@pytest.fixture
def motions():
    return torch.randn(5, 220, 263, generator=torch.Generator().manual_seed(1))


def slow(model, frames):
    """One motion of at most 196 frames as the original encodes it: a buffer of 196 frames, no packing."""
    x = torch.zeros(1, 196, 263)
    x[0, : len(frames)] = (frames - model.mean) / model.std
    movements = model.movement_encoder.out_net(model.movement_encoder.main(x[..., :-4].transpose(1, 2)).transpose(1, 2))
    encoder = model.motion_encoder
    steps = encoder.input_emb(movements[:, : len(frames) // 4])
    _, last = encoder.gru(steps, encoder.hidden)
    return encoder.output_net(torch.cat([last[0], last[1]], -1))[0]


@pytest.mark.parametrize("lengths", [(196, 195, 4, 7, 40), (100, 97, 98, 99, 100), (8, 196, 8, 8, 8)])
def test_a_motion_does_not_depend_on_padding_or_company(small, motions, lengths):
    expected = torch.stack([slow(small, motions[row, :length]) for row, length in enumerate(lengths)])
    crops = small.encode_crops(motions, [Crop(row, 0, length) for row, length in enumerate(lengths)])
    close(crops.mu, expected)
    padded = motions.clone()
    for row, length in enumerate(lengths):
        padded[row, length:] = small.mean
    close(small.encode_motions(padded[:, : max(lengths)], torch.tensor(lengths)), expected)
    close(small.encode_motions(padded, torch.tensor(lengths)), expected)
    # A crop elsewhere is the same motion.
    moved = torch.cat([motions[:, 200:], motions[:, :200]], 1)
    inner = small.encode_crops(moved, [Crop(row, 20, length) for row, length in enumerate(lengths)])
    close(inner.mu, expected)


def test_frames_after_a_motion_are_read_as_given(small, motions):
    """The original leaves what a generator made after a motion's end; its last step reads three frames of it."""
    ends = torch.tensor([40, 41, 42, 43, 40])
    plain = small.encode_motions(motions, ends)
    changed = motions.clone()
    changed[:, 46:] += 1.0
    close(small.encode_motions(changed, ends), plain, 0)
    changed[0, 42] += 1.0
    other = small.encode_motions(changed, ends)
    assert (other[0] - plain[0]).abs().max() > 1e-4
    close(other[1:], plain[1:], 0)


def test_longer_motions_have_a_buffer_of_their_own(small, motions):
    longer = small.encode_motions(motions, torch.full((5,), 220))
    alone = small.encode_motions(motions[:1], torch.tensor([220]))
    close(longer[:1], alone)
    assert longer.isfinite().all()


def test_contacts_are_not_read(small, motions):
    lengths = torch.full((5,), 60)
    other = motions.clone()
    other[..., -4:] = 3.0
    close(small.encode_motions(other, lengths), small.encode_motions(motions, lengths), 0)


def test_short_and_broken_crops_are_not_finite(small, motions):
    broken = motions.clone()
    broken[1, 3, 5] = torch.nan
    crops = [Crop(0, 0, 3), Crop(0, 5, 0), Crop(1, 0, 20), Crop(1, 10, 20), Crop(2, 0, 4)]
    got = small.encode_crops(broken, crops)
    assert got.finite.tolist() == [False, False, False, True, True]
    assert got.mu[:2].abs().max() == 0
    assert small.encode_crops(motions, []).mu.shape == (0, 6)
    assert small.encode_motions(motions[:0], torch.zeros(0, dtype=torch.int64)).shape == (0, 6)
    with pytest.raises(MotionkitError, match="3 frames"):
        small.encode_motions(motions, torch.tensor([40, 3, 40, 40, 40]))


def test_gradient_equals_differences(small):
    """In float64, where finite differences tell."""
    model = small.double()
    x = torch.randn(1, 12, 263, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(5))

    def value(features):
        return (model.encode_motions(features, torch.tensor([12])) * weight).sum()

    (gradient,) = torch.autograd.grad(value(x), x)
    direction = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    step = 1e-6
    slope = (value(x.detach() + step * direction) - value(x.detach() - step * direction)) / (2 * step)
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-6)


def test_crops_have_a_gradient(small, motions):
    x = motions.requires_grad_()
    small.encode_crops(x, [Crop(0, 8, 20), Crop(1, 0, 2)]).mu.square().sum().backward()
    assert x.grad[0, 8:28].abs().sum() > 0
    assert x.grad[0, :8].abs().max() == x.grad[0, 28:].abs().max() == x.grad[1].abs().max() == 0


def test_width_is_checked(small):
    narrow = torch.zeros(1, 40, 251)
    for call in (lambda: small.encode_motions(narrow, torch.tensor([40])),
                 lambda: small.encode_crops(narrow, [Crop(0, 0, 40)])):  # fmt: skip
        with pytest.raises(MotionkitError, match=r"HumanML3D.*KIT-ML"):
            call()


def test_one_hots_equal_the_recorded_ones(shared):
    """With the words of the public vocabulary among these; ``xyzzy`` and ``2`` are not in it."""
    recorded = json.loads((shared / "fixtures/mdm/pos_onehot_examples.json").read_text())
    table = WordTable(torch.eye(len(WORDS)), {word: row for row, word in enumerate(WORDS)})
    sentences = table.look_up([[token] for token in recorded])
    assert sentences.parts[:, 1].argmax(1).tolist() == list(recorded.values())
    assert (sentences.parts.sum(2) == 1).all()
    rows = sentences.words[:, 1].argmax(1).tolist()
    assert [WORDS[row] for row in rows] == [
        word if (word := token.split("/")[0]) in WORDS else "unk" for token in recorded
    ]


def test_items_of_the_recorded_dataset(shared):
    """Lengths and parts of speech as the original's loader gives them; the public vocabulary has no ``segment``."""
    folder = shared / "fixtures/mdm/mini_humanml3d"
    items = json.loads((folder / "peer_dataset_view.json").read_text())["items_seed10"]
    found = sorted({token.rpartition("/")[0] for item in items for token in item["tokens"].split("_")} - {"segment"})
    table = WordTable(torch.zeros(len(found), 2), {word: row for row, word in enumerate(found)})
    assert items
    for item in items:
        tokens = [token for token in item["tokens"].split("_") if not token.startswith(("sos/", "eos/", "unk/"))]
        sentences = table.look_up([tokens])
        assert int(sentences.counts) == item["sent_len"]
        assert sentences.parts[0].argmax(1).tolist() == item["pos_argmax"][: item["sent_len"]]


def test_long_captions_are_cut(small):
    many = ["walk/VERB"] * 30
    assert torch.equal(small.encode_tokens([many]), small.encode_tokens([many[:20]]))
    assert int(small.words.look_up([many]).counts) == 22


def test_texts_are_in_order_and_alone(small):
    tokens = [("a/DET", "man/NOUN", "walk/VERB"), ("wave/VERB",), ("a/DET", "man/NOUN", "jump/VERB", "slowly/ADV")]
    together = small.encode_tokens(tokens)
    for row, own in zip(together, tokens, strict=True):
        close(row, small.encode_tokens([own])[0])
    texts = ["a man walks", "wave", "a man jumps slowly"]
    close(small.encode_texts([*texts, texts[0]]), together[[0, 1, 2, 0]])
    assert small.encode_texts([]).shape == (0, 6)


def test_stored_tokens_come_first(small, caplog):
    tagged = small.encode_texts(["a man walks"])
    small.use_tokens({"a man walks": ("the/DET", "ball/NOUN"), "silent": ()})
    close(small.encode_texts(["a man walks"])[0], small.encode_tokens([("the/DET", "ball/NOUN")])[0], 0)
    assert not torch.equal(tagged, small.encode_texts(["a man walks"]))
    assert "silent" not in small.tokens


def test_segments_are_joined_by_then(small, caplog):
    prompt = Prompt(("a man walks", "a man jumps"), (40, 40))
    small.use_tokens({"a man jumps": ("wave/VERB",)})
    expected = small.encode_tokens([("a/DET", "man/NOUN", "walk/VERB", "then/ADV", "wave/VERB")])
    close(small.encode_texts([small.whole_text(prompt)]), expected)
    assert not caplog.records
    small.encode_texts([small.whole_text(Prompt(("a man walks " * 4, "a man jumps " * 4), (40, 40)))])
    assert "of which the evaluator reads 20" in caplog.text


def test_captions_that_say_nothing_are_named(small, caplog):
    small.encode_texts(["xyzzy frobnicates"])
    assert "knows no word of 'xyzzy frobnicates'" in caplog.text
    caplog.clear()
    small.encode_texts(["a xyzzy"])
    assert not caplog.records


def test_vocabularies_must_be_whole():
    for rows, word in (({"sos": 0, "a": 1}, "no eos and no unk"), ({"sos": 0, "eos": 1, "unk": 2}, "do not fit")):
        with pytest.raises(MotionkitError, match=word):
            WordTable(torch.zeros(2, 3), rows)
