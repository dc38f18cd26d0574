"""TMR: its networks, with the tensor names of released checkpoints, and the model as motionkit uses it.

Tensor names are those of the released files up to the attention projections (`motionkit.nn.native_keys`).

Source: Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), after ACTOR (ICCV 2021). One class serves
motion and text; they differ in the input width only. `open_text_model` opens the text model in front of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.nn import TransformerDecoder, TransformerEncoder, sinusoidal_table, zeroed
from motionkit.rl import length_mask
from motionkit.runs import fingerprint_tensors
from motionkit.text import ENCODERS, SEPARATOR, Prompt, StoredEncoder, TextEncoder, TextFeatures, load_encoder
from motionkit.text_to_motion import crops as _crops
from motionkit.text_to_motion.crops import Crop, CropLatents, JointSpace, encode_crops

_STD_EPS = 1e-12  # added to standard deviations, as in the original
_SENTENCE_MODELS = ("minilm", "stored")
_CHUNK = 64
_LIMIT = 64 << 20  # bytes of the index; a text takes about 60


@dataclass(frozen=True)
class ActorSizes:
    """Sizes of one encoder or decoder."""

    features: int  # width F of the sequence
    latent: int = 256  # width D of the transformer and of the latent
    feedforward: int = 1024  # hidden width of the feed-forward blocks
    layers: int = 6
    heads: int = 4  # attention heads, which cannot be inferred from weights
    variational: bool = True  # two summary tokens (mean and log-variance) instead of one
    dropout: float = 0.1


class Latent(NamedTuple):
    """A Gaussian in the joint space: ``mu`` and ``logvar`` (zeros when not variational), each ``[N, D]``."""

    mu: Tensor
    logvar: Tensor

    def sample(self, generator: torch.Generator | None = None, *, scale: float = 1.0) -> Tensor:
        """Draw ``mu + scale * eps * exp(logvar)^0.5``."""
        eps = torch.randn(self.mu.shape, generator=generator, device=self.mu.device, dtype=self.mu.dtype)
        return self.mu + scale * eps * self.logvar.exp().pow(0.5)


class _Positioned(nn.Module):
    """Adds positions, from a table that grows with the longest sequence and is not saved."""

    table: Tensor

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", torch.zeros(0, width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.table.shape[0] < x.shape[1] or self.table.device != x.device:
            self.table = sinusoidal_table(max(256, x.shape[1]), x.shape[2]).to(x.device)
        moved: Tensor = self.dropout(x + self.table[: x.shape[1]].to(x.dtype))
        return moved


class ActorEncoder(nn.Module):
    """Sequence to latent: the outputs of summary tokens in front of the projected frames."""

    def __init__(self, sizes: ActorSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.projection = nn.Linear(sizes.features, sizes.latent)
        self.tokens = nn.Parameter(torch.empty(2 if sizes.variational else 1, sizes.latent))
        if not self.tokens.is_meta:  # there, drawing would import torch._dynamo, which takes as long as torch itself
            nn.init.normal_(self.tokens)
        self.sequence_pos_encoding = _Positioned(sizes.latent, sizes.dropout)
        self.seqTransEncoder = TransformerEncoder(
            sizes.latent, sizes.heads, sizes.feedforward, sizes.layers, sizes.dropout
        )

    def forward(self, x: Tensor, mask: Tensor) -> Latent:
        """Encode N sequences ``[N, T, F]`` with ``mask [N, T]`` (True = valid); padding may hold anything.

        A row does not depend on the rest of the batch.
        """
        x = zeroed(x, mask)
        count = self.tokens.shape[0]
        # [N, c + T, D]: c = 1 or 2 learned summary tokens (mu, logvar) in front of the projected frames as in ACTOR.
        sequence = torch.cat([self.tokens.expand(len(x), -1, -1), self.projection(x)], 1)
        # Summary tokens are always attended to.
        keys = torch.cat([mask.new_ones(len(x), count), mask], 1)
        out = self.seqTransEncoder(self.sequence_pos_encoding(sequence), keys, finite=True)
        return Latent(out[:, 0], out[:, 1] if count == 2 else torch.zeros_like(out[:, 0]))


class ActorDecoder(nn.Module):
    """Latent to sequence: positions as queries, the latent as the only memory token."""

    def __init__(self, sizes: ActorSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.sequence_pos_encoding = _Positioned(sizes.latent, sizes.dropout)
        self.seqTransDecoder = TransformerDecoder(
            sizes.latent, sizes.heads, sizes.feedforward, sizes.layers, sizes.dropout
        )
        self.final_layer = nn.Linear(sizes.latent, sizes.features)

    def forward(self, latent: Tensor, mask: Tensor) -> Tensor:
        """Decode ``[N, D]`` latents into ``[N, T, F]`` normalised features; masked frames are exactly 0."""
        # Queries [N, T, D] are positions alone; the memory [N, 1, D] is the latent.
        queries = self.sequence_pos_encoding(latent.new_zeros(*mask.shape, latent.shape[1]))
        out = self.seqTransDecoder(queries, latent[:, None], mask)
        features: Tensor = self.final_layer(out)
        return zeroed(features, mask)


def fold(x: Tensor, mask: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """Join `patch` frames into one token; the last token is padded with zeros.

    Several frames per token make the same network several times cheaper. A released TMR reads one frame per token; a
    motion encoder whose input is p times as wide as a frame reads p frames.

    Args:
        x: ``[N, T, F]``; masked frames may hold anything.
        mask: ``[N, T]`` bool, True = valid, valid frames first.
        patch: Frames per token.

    Returns:
        ``[N, ceil(T / patch), patch * F]`` and its mask; a token is valid if it has a valid frame.
    """
    if patch == 1:
        return x, mask
    x = zeroed(x, mask)
    # Frames missing in the last token.
    spare = -x.shape[1] % patch
    if spare:
        x, mask = F.pad(x, (0, 0, 0, spare)), F.pad(mask, (0, spare))
    count, width = x.shape[1] // patch, patch * x.shape[2]
    # [N, S p, F] -> [N, S, p F]: the features of p frames side by side.
    return x.reshape(x.shape[0], count, width), mask.reshape(x.shape[0], count, patch).any(-1)


def unfold(x: Tensor, mask: Tensor, patch: int) -> Tensor:
    """Undo `fold` on decoded tokens ``[N, S, patch * F]``: ``[N, T, F]``, zeros outside ``mask [N, T]``."""
    frames = x.reshape(x.shape[0], -1, x.shape[2] // patch)[:, : mask.shape[1]]
    return zeroed(frames, mask)


class TMR(JointSpace):
    """Text-to-motion retrieval model.

    Args:
        motion_encoder: Reads features normalised with `mean` and `std`.
        text_encoder: Reads the token features of `text_model`.
        mean: ``[F]`` TMR's mean, not the generator's. An encoder that reads p * F features has p frames per token.
        std: ``[F]`` TMR's standard deviation.
        text_model: Encodes texts as token features; None if only features are given.
        motion_decoder: Needed for training only.
        origin: File of the weights, for messages.
        trained_on: Dataset it was trained on, if known.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        motion_encoder: ActorEncoder,
        text_encoder: ActorEncoder,
        mean: Tensor,
        std: Tensor,
        *,
        text_model: TextEncoder | None = None,
        motion_decoder: ActorDecoder | None = None,
        origin: str = "new weights",
        trained_on: DataRecord | None = None,
    ) -> None:
        super().__init__()
        width = motion_encoder.sizes.features
        if mean.ndim != 1 or mean.shape != std.shape or not len(mean) or width % len(mean):
            raise MotionkitError(
                f"TMR statistics have {list(mean.shape)} and {list(std.shape)} values, "
                f"its motion encoder reads {width} features.",
                fix="point --reward.stats at the mean and std that this TMR was trained with.",
            )
        self.patch = width // len(mean)
        self.motion_encoder = motion_encoder
        self.text_encoder = text_encoder
        self.motion_decoder = motion_decoder
        self.register_buffer("mean", mean.detach().clone().float(), persistent=False)
        self.register_buffer("std", std.detach().clone().float(), persistent=False)
        self.origin = origin
        self.trained_on = trained_on
        self.text_model: TextEncoder | None = None
        self._texts: dict[str, Tensor] = {}
        if text_model is not None:
            self.read_texts_by(text_model)

    def read_texts_by(self, model: TextEncoder) -> None:
        """Take another text model; latents of the one before are forgotten.

        Raises:
            MotionkitError: It is of another width.
        """
        if model.width != (width := self.text_encoder.sizes.features):
            raise MotionkitError(
                f"the text model {model.name!r} gives {model.width} features per token, "
                f"the TMR text encoder of {self.origin} reads {width}.",
                why="a TMR text encoder reads only the features of the text model it was trained with.",
                fix="choose that model with --reward.text-model (768 features: distilbert; 384: minilm or stored).",
            )
        self.text_model, self._texts = model, {}

    def fingerprint(self) -> str:
        """Return the fingerprint of weights and statistics, without the text model."""
        return fingerprint_tensors({**self.state_dict(), "own mean": self.mean, "own std": self.std})

    @property
    def latent(self) -> int:
        """Width D of the joint space."""
        return self.motion_encoder.sizes.latent

    def normalize(self, features: Tensor) -> Tensor:
        """Normalise features with TMR's statistics: ``(x - mean) / (std + 1e-12)``."""
        return (features - self.mean) / (self.std + _STD_EPS)

    def denormalize(self, features: Tensor) -> Tensor:
        """Inverse of `normalize`."""
        return features * (self.std + _STD_EPS) + self.mean

    def encode_motion(self, features: Tensor, mask: Tensor) -> Latent:
        """Encode one padded batch of unnormalised features ``[N, T, F]`` with ``mask [N, T]`` (True = valid)."""
        self.check_width(features)
        return self.encode_normalized(self.normalize(features), mask)

    def encode_normalized(self, x: Tensor, mask: Tensor) -> Latent:
        """Encode one padded batch ``[N, T, F]`` that is already in TMR's normalised space."""
        latent: Latent = self.motion_encoder(*fold(x, mask, self.patch))
        return latent

    def decode(self, latent: Tensor, mask: Tensor) -> Tensor:
        """Decode ``[N, D]`` latents into ``[N, T, F]`` normalised features, 0 outside ``mask [N, T]``."""
        if self.motion_decoder is None:
            raise MotionkitError(f"the TMR of {self.origin} has no motion decoder.")
        tokens = fold(mask[..., None].to(latent.dtype), mask, self.patch)[1]
        return unfold(self.motion_decoder(latent, tokens), mask, self.patch)

    def encode_tokens(self, texts: TextFeatures) -> Latent:
        """Encode token features, as one batch."""
        latent: Latent = self.text_encoder(texts.tokens, texts.mask)
        return latent

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent mean ``[N, D]`` of each text, which is cached.

        Texts are encoded one at a time, so that a latent does not depend on the other texts of a call: a resumed run
        then has the same bits.
        """
        for text in dict.fromkeys(texts):
            if text not in self._texts:
                if self.text_model is None:
                    raise MotionkitError(
                        f"the TMR of {self.origin} has no text model.", fix="name one with --reward.text-model."
                    )
                with torch.no_grad():
                    tokens = self._tokens(text, self.text_model).to(self.mean.device)
                    self._texts[text] = self.encode_tokens(tokens).mu[0]
        return torch.stack([self._texts[text] for text in texts]) if texts else self.mean.new_zeros(0, self.latent)

    @staticmethod
    def _tokens(text: str, model: TextEncoder) -> TextFeatures:
        """Encode the clauses of a text for a model of one vector per sentence, the whole text for other models."""
        clauses = text.split(SEPARATOR)
        if model.name not in _SENTENCE_MODELS or len(clauses) == 1:
            return model.encode([text])
        # One sentence vector per clause, [C, 1, F], becomes the token sequence [1, C, F].
        tokens = model.encode(clauses).tokens.flatten(0, 1)[None]
        return TextFeatures(tokens, torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device))

    def whole_text(self, prompt: Prompt) -> str:
        """Return the text of a whole prompt, in the form for this TMR's text model."""
        sentence = self.text_model is not None and self.text_model.name in _SENTENCE_MODELS
        return SEPARATOR.join(prompt.segments) if sentence else prompt.text

    def encode_crops(self, features: Tensor, crops: Sequence[Crop], *, clamp: float = 0.0) -> CropLatents:
        """Encode crops of a batch of motions in length buckets; differentiable in `features`.

        Args:
            features: ``[N, T, F]`` unnormalised; frames outside all crops may hold anything.
            crops: S crops; one of length 0 is not encoded.
            clamp: Clamp normalised values to ``[-clamp, clamp]``; 0 does not.
        """
        self.check_width(features)

        def encode(x: Tensor, lengths: Tensor) -> Tensor:
            return self.encode_normalized(x, length_mask(lengths, x.shape[1])).mu

        return encode_crops(features, crops, normalize=self.normalize, encode=encode, latent=self.latent, clamp=clamp)

    def check_width(self, features: Tensor) -> None:
        """Refuse features of another width than the motion encoder's."""
        width = len(self.mean)
        if features.shape[-1] != width:
            raise MotionkitError(
                f"the TMR of {self.origin} reads {width} features per frame, these motions have {features.shape[-1]}.",
                why="the released KIT model, too, reads 263-d HumanML3D features at 20 fps."
                if features.shape[-1] == 251
                else "a TMR scores the feature layout it was trained on.",
                fix="use a TMR trained on this data: motionkit pretrain tmr --dataset ...",
            )


def new_tmr(
    sizes: ActorSizes,
    mean: Tensor,
    std: Tensor,
    text_model: TextEncoder,
    *,
    decoder: bool = False,
    text_scale: float = 1.0,
    seed: int = 0,
) -> TMR:
    """Build a TMR with random weights.

    Args:
        sizes: Sizes of the motion encoder; the text encoder's input width is that of `text_model`.
        mean: ``[F]`` mean of the training features.
        std: ``[F]`` their standard deviation.
        text_model: Encodes texts as token features.
        decoder: Also build the motion decoder, for the reconstruction loss.
        text_scale: Root mean square of the text model's features, by which the text projection is divided. Unit-norm
            sentence vectors have values of 0.05, too small beside the summary tokens with the default initialisation.
        seed: Of the weights; the global generator is not used.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        motion = ActorEncoder(sizes)
        text = ActorEncoder(replace(sizes, features=text_model.width))
        back = ActorDecoder(sizes) if decoder else None
    with torch.no_grad():
        text.projection.weight.div_(text_scale)
    return TMR(motion, text, mean, std, text_model=text_model, motion_decoder=back).eval()


def sentence_embeddings(texts: TextFeatures) -> Tensor:
    """Return ``[B, F]`` unit-norm means over valid tokens, the pooling of sentence transformers."""
    weight = texts.mask[..., None].to(texts.tokens.dtype)
    return F.normalize((texts.tokens * weight).sum(1) / weight.sum(1).clamp(min=1), dim=-1)


def encode_captions(tmr: TMR, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return unit-norm latents ``[N, D]`` and sentence embeddings ``[N, F]`` of captions; `tmr` has a text model."""
    assert tmr.text_model is not None
    features = tmr.text_model.encode(captions).to(tmr.mean.device)
    chunks = torch.split(torch.arange(len(captions), device=tmr.mean.device), _CHUNK)
    mu = torch.cat([tmr.encode_tokens(features.select(chunk)).mu for chunk in chunks])
    return F.normalize(mu, dim=-1), sentence_embeddings(features)


def encode_clips(
    tmr: TMR, clips: Sequence[Tensor], crops: Sequence[Crop] = (), *, progress: Callable[[int], None] | None = None
) -> Tensor:
    """Return unit-norm latents ``[N, D]`` of clips."""
    return F.normalize(_crops.encode_clips(tmr, clips, crops, progress=progress), dim=-1)


def find_token_tables(folder: Path) -> list[Path]:
    """Return the ``<model>_slice.npy`` files at or below `folder`/token_embeddings (or `folder` itself)."""
    inner = folder / "token_embeddings"
    return sorted((inner if inner.is_dir() else folder).rglob("*_slice.npy"))


class TokenFolder:
    """Precomputed token embeddings in TMR's folder layout, looked up by the exact text.

    Layout: ``<model>.npy`` ``[sum L, F]``, ``<model>_slice.npy`` ``[N, 2]`` (begin, end), ``<model>_index.json``
    (text to row), below ``token_embeddings`` or in `folder` itself.
    """

    def __init__(self, folder: Path) -> None:
        tables = find_token_tables(folder)
        if len(tables) != 1:
            raise MotionkitError(
                f"{folder} holds {len(tables)} tables of token embeddings, one is needed.",
                fix="name the folder of one model, with <model>.npy, <model>_slice.npy and <model>_index.json.",
            )
        stem = tables[0].name.removesuffix("_slice.npy")
        self.name = stem
        self._origin = tables[0].parent / f"{stem}.npy"
        values, slices = weights.read_numbers(self._origin), weights.read_numbers(tables[0])
        index_file = tables[0].parent / f"{stem}_index.json"
        index = read_json(index_file, dict, limit=_LIMIT, fix="copy it again.")
        if not all(type(row) is int for row in index.values()):  # bool is an int
            raise MotionkitError(f"{index_file} is not an index of texts.", why="its values must be row numbers.")
        fits = values.ndim == 2 and values.dtype.kind == "f"
        if not fits or slices.dtype.kind not in "iu" or slices.shape[1:] != (2,):
            raise MotionkitError(f"{self._origin} and its slices are not a table of token embeddings.")
        inside = slices.size == 0 or (
            slices.min() >= 0 and slices.max() <= len(values) and (slices[:, 0] < slices[:, 1]).all()
        )
        if not inside or any(not 0 <= row < len(slices) for row in index.values()):
            raise MotionkitError(f"the rows of {self._origin} do not fit its slices and index.")
        self.width = int(values.shape[1])
        self.fingerprint = f"tokens-{hashlib.sha256(values.tobytes()).hexdigest()[:16]}"
        self._values = torch.from_numpy(values).float()
        self._rows = {text: (int(slices[row, 0]), int(slices[row, 1])) for text, row in index.items()}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return the stored tokens of `texts`."""
        rows = [self._lookup(text) for text in texts]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        return TextFeatures(tokens, length_mask(lengths, tokens.shape[1]))

    def _lookup(self, text: str) -> Tensor:
        if text not in self._rows:
            raise MotionkitError(
                f"{text!r} has no precomputed embedding in {self._origin}.",
                why="the table is looked up by the exact text.",
                fix="use one of its texts, or a text model: --reward.text-model distilbert.",
            )
        begin, end = self._rows[text]
        return self._values[begin:end]


def open_text_model(
    name: str,
    *,
    width: int = 0,
    kind: str = "",
    table: Path | None = None,
    local: bool = False,
    device: torch.device | str = "cpu",
) -> TextEncoder:
    """Open a text model for a text encoder that reads `width` features per token.

    Args:
        name: An encoder name, a folder (a model, or precomputed ``token_embeddings``), a ``.safetensors`` table of
            stored embeddings, or a hub id; empty for the one that fits `width` (768 distilbert, 384 minilm).
        width: Features per token of the TMR text encoder.
        kind: Encoder of a folder or hub id; empty: chosen by `width`.
        table: Table of the encoder ``stored``.
        local: Never use the network, not even for a hub id.
        device: Where the model goes.
    """
    by_width = {768: "distilbert", 384: "stored" if table is not None else "minilm"}
    name = name or by_width.get(width, "")
    if not name:
        raise MotionkitError(
            f"no text model is known for a TMR text encoder that reads {width} features.",
            fix="name its folder, hub id or precomputed token_embeddings folder with --reward.text-model.",
        )
    if name in ENCODERS:
        return load_encoder(name, table=table if name == "stored" else None, local=local, device=device)
    path = Path(name)
    if path.is_dir() and find_token_tables(path):
        return TokenFolder(path)
    if path.is_file() and path.suffix == ".safetensors":
        return StoredEncoder(path)
    kind = {"": "minilm" if width == 384 else "distilbert", "stored": "minilm"}.get(kind, kind)
    return load_encoder(kind, model=name, local=local, device=device)
