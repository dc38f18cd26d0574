"""The text-to-motion evaluator of Guo et al.: its three networks, its statistics and its words.

Source: Guo et al., "Generating Diverse and Natural 3D Human Motions from Text" (CVPR 2022), appendix; the sizes in
`EvaluatorSizes` are those of ``text_mot_match/model/finest.tar``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, evaluator_words, tag_caption
from motionkit.page.wording import count
from motionkit.rl import length_mask
from motionkit.runs import fingerprint, fingerprint_tensors
from motionkit.text import SEPARATOR, Prompt
from motionkit.text_to_motion.crops import Crop, CropLatents, JointSpace, encode_crops

UNIT = 4  # frames per step of the movement encoder's output
WINDOW = 196  # frames of the buffer that the original encodes; a longer motion fills a buffer of its own length
CONTACTS = 4  # features at the end of a frame (foot contacts) that the movement encoder does not read
TAGS = 15  # length of the one-hot vector of a word's part of speech
_SLOPE = 0.2
MAX_WORDS = 20  # words of a caption that are read
# In the order of the one-hot vector.
PARTS_OF_SPEECH = (
    "VERB", "NOUN", "DET", "ADP", "NUM", "AUX", "PRON", "ADJ", "ADV",
    "Loc_VIP", "Body_VIP", "Obj_VIP", "Act_VIP", "Desc_VIP", "OTHER",
)  # fmt: skip
_LISTS = {
    "location": "Loc_VIP",
    "body": "Body_VIP",
    "object": "Obj_VIP",
    "action": "Act_VIP",
    "description": "Desc_VIP",
}
_START, _END, _UNKNOWN = "sos", "eos", "unk"
_logger = logging.getLogger("motionkit.evaluator")
Tagger = Literal["auto", "built-in"]
_JOIN = "then/ADV"
_BODIES = {263: "HumanML3D", 251: "KIT-ML"}


@dataclass(frozen=True)
class EvaluatorSizes:
    """Widths of the evaluator."""

    features: int = 263  # features per frame, contacts included (263, or 251 for KIT-ML)
    movement_hidden: int = 512  # channels of the first convolution
    movement: int = 512  # width of a movement step
    motion_hidden: int = 1024  # width of the motion GRU, per direction
    text_hidden: int = 512  # width of the text GRU, per direction
    latent: int = 512  # width of the co-embedding
    word: int = 300  # width of a word vector
    dropout: float = 0.2  # of the convolutions


class MovementEncoder(nn.Module):
    """Two strided convolutions: four frames become one movement step."""

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__()
        hidden, width = sizes.movement_hidden, sizes.movement
        self.main = nn.Sequential(
            nn.Conv1d(sizes.features - CONTACTS, hidden, UNIT, stride=2, padding=1),
            nn.Dropout(sizes.dropout),
            nn.LeakyReLU(_SLOPE),
            nn.Conv1d(hidden, width, UNIT, stride=2, padding=1),
            nn.Dropout(sizes.dropout),
            nn.LeakyReLU(_SLOPE),
        )
        self.out_net = nn.Linear(width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Encode ``[N, T, F]`` normalised frames with contacts as ``[N, T // 4, M]`` steps, ``lengths // 4`` valid.

        The last step of a motion reads up to three frames past its end, as they are given; zeros follow them, whatever
        the padding of the batch. A motion of `WINDOW` frames or more ends at its last whole step, like the buffers of
        the original, which hold `WINDOW` frames.
        """
        steps = x.shape[1] // UNIT
        # Four more frames of zeros, so that the first convolution has an output past every motion's end.
        half = self.main[:3](F.pad(x[..., :-CONTACTS].transpose(1, 2), (0, UNIT)))  # [N, H, T / 2 + 2]
        end = torch.where(lengths < WINDOW, half.shape[2], lengths // UNIT * 2)
        inside = length_mask(end, half.shape[2])
        half = torch.where(inside[:, None], half, 0.0)
        movements = self.main[3:](half).transpose(1, 2)[:, :steps]
        out: Tensor = self.out_net(movements)
        return out


class _Recurrent(nn.Module):
    """A bidirectional GRU with a learned initial state; its two last states become one latent."""

    def __init__(self, inputs: int, hidden: int, inner: int, latent: int) -> None:
        super().__init__()
        self.input_emb = nn.Linear(inputs, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.hidden = nn.Parameter(torch.randn(2, 1, hidden))
        self.output_net = nn.Sequential(
            nn.Linear(2 * hidden, inner), nn.LayerNorm(inner), nn.LeakyReLU(_SLOPE), nn.Linear(inner, latent)
        )

    def run(self, steps: Tensor, counts: Tensor) -> Tensor:
        """Encode ``[N, S, I]`` steps, of which the first ``counts [N]`` (at least 1 each) are valid."""
        packed = pack_padded_sequence(self.input_emb(steps), counts.cpu(), batch_first=True, enforce_sorted=False)
        # cuDNN's GRU has no backward pass in eval mode.
        cudnn_fails = steps.is_cuda and steps.requires_grad and not self.training
        with torch.backends.cudnn.flags(enabled=False) if cudnn_fails else nullcontext():
            _, last = self.gru(packed, self.hidden.expand(-1, len(steps), -1).contiguous())
        out: Tensor = self.output_net(torch.cat([last[0], last[1]], -1))
        return out


class MotionEncoder(_Recurrent):
    """Movement steps to a latent."""

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__(sizes.movement, sizes.motion_hidden, sizes.motion_hidden, sizes.latent)

    def forward(self, movements: Tensor, counts: Tensor) -> Tensor:
        """Encode ``[N, S, M]`` movement steps, the first ``counts [N]`` valid: ``[N, E]``."""
        return self.run(movements, counts)


class TextEncoder(_Recurrent):
    """Words with their parts of speech to a latent."""

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__(sizes.word, sizes.text_hidden, sizes.text_hidden, sizes.latent)
        self.pos_emb = nn.Linear(TAGS, sizes.word)

    def forward(self, words: Tensor, parts: Tensor, counts: Tensor) -> Tensor:
        """Encode ``words [N, L, W]`` and one-hot ``parts [N, L, P]``, the first ``counts [N]`` valid: ``[N, E]``."""
        return self.run(words + self.pos_emb(parts), counts)


class Sentences(NamedTuple):
    """Captions as tensors."""

    words: Tensor  # [N, L, W] word vectors, start and end included, zeros past a caption's end
    parts: Tensor  # [N, L, 15] one-hot parts of speech, zeros past a caption's end
    counts: Tensor  # [N] int64, words of each caption, start and end included

    def to(self, device: torch.device | str) -> Sentences:
        """Return a copy on another device."""
        return Sentences(*(tensor.to(device) for tensor in self))


class WordTable:
    """Vectors of a fixed vocabulary."""

    def __init__(
        self,
        vectors: Tensor,  # [V, W]
        rows: Mapping[str, int],  # row by word, with ``sos``, ``eos`` and ``unk``
        origin: str = "new words",  # its file, for messages
    ) -> None:
        missing = [word for word in (_START, _END, _UNKNOWN) if word not in rows]
        if missing:
            raise MotionkitError(f"the vocabulary of {origin} has no {' and no '.join(missing)}.", fix="copy it again.")
        if vectors.ndim != 2 or not all(0 <= row < len(vectors) for row in rows.values()):
            raise MotionkitError(
                f"the words of {origin} do not fit its vectors {list(vectors.shape)}.", fix="copy them again."
            )
        self.vectors = vectors.float()
        self.rows = dict(rows)
        self.origin = origin

    @property
    def width(self) -> int:
        """Width W of a vector."""
        return int(self.vectors.shape[1])

    def fingerprint(self) -> str:
        """Return the fingerprint of words and vectors."""
        return fingerprint(self.vectors, *(f"{word} {row}" for word, row in sorted(self.rows.items())))

    def knows(self, tokens: Sequence[str]) -> bool:
        """Whether one of the first `MAX_WORDS` ``word/POS`` tokens is in the vocabulary."""
        return any(token.rpartition("/")[0] in self.rows for token in tokens[:MAX_WORDS])

    def look_up(self, captions: Sequence[Sequence[str]]) -> Sentences:
        """Turn ``word/POS`` tokens of N captions, without start and end, into tensors.

        A word outside the vocabulary is ``unk``; a word of one of the evaluator's five lists has that list's part of
        speech instead of its tag; an unknown tag is ``OTHER``.
        """
        sentences = [[f"{_START}/OTHER", *tokens[:MAX_WORDS], f"{_END}/OTHER"] for tokens in captions]
        counts = torch.tensor([len(tokens) for tokens in sentences], dtype=torch.int64)
        longest = max(map(len, sentences), default=0)
        words = torch.zeros(len(sentences), longest, self.width)
        parts = torch.zeros(len(sentences), longest, len(PARTS_OF_SPEECH))
        for number, tokens in enumerate(sentences):
            places = [self._read(token) for token in tokens]
            words[number, : len(tokens)] = self.vectors[[row for row, _ in places]]
            parts[number, range(len(tokens)), [part for _, part in places]] = 1.0
        return Sentences(words, parts, counts)

    def _read(self, token: str) -> tuple[int, int]:
        """Return the row of a token's word and the index of its part of speech."""
        word, _, part = token.rpartition("/")
        if word not in self.rows:
            word, part = _UNKNOWN, "OTHER"
        part = _special().get(word, part)
        return self.rows[word], PARTS_OF_SPEECH.index(part if part in PARTS_OF_SPEECH else "OTHER")


@lru_cache(maxsize=1)
def _special() -> dict[str, str]:
    """Return the part of speech of every listed word; if two lists have a word, that of the first of `_LISTS`."""
    result: dict[str, str] = {}
    for name, part in _LISTS.items():
        for word in evaluator_words(name):
            result.setdefault(word, part)
    return result


class T2MEvaluator(JointSpace):
    """Text and motion encoder of Guo et al. (CVPR 2022) with a euclidean co-embedding.

    R-precision, MM-Dist and FID of text-to-motion papers are measured in its space; latents are not normalised and are
    compared by euclidean distance.

    Args:
        movement_encoder: Reads frames without contacts.
        motion_encoder: Reads movement steps.
        text_encoder: Reads words of `words`.
        mean: ``[F]`` the evaluator's mean (``Comp_v6_KLD01/meta``), not the generator's or the dataset's.
        std: ``[F]`` the evaluator's standard deviation.
        words: Word vectors.
        sizes: Sizes of the networks.
        tagger: Tagger of captions without stored tokens: ``built-in``, the same on every machine, or ``auto``, the best
            that is installed (see `motionkit.motion.tag_caption`).
        origin: File of the weights, for messages.
        trained_on: Dataset it was trained on, if known.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        movement_encoder: MovementEncoder,
        motion_encoder: MotionEncoder,
        text_encoder: TextEncoder,
        mean: Tensor,
        std: Tensor,
        words: WordTable,
        *,
        sizes: EvaluatorSizes,
        tagger: Tagger = "auto",
        origin: str = "new weights",
        trained_on: DataRecord | None = None,
    ) -> None:
        super().__init__()
        for name, tensor in (("mean", mean), ("std", std)):
            if tensor.shape != (sizes.features,):
                raise MotionkitError(
                    f"the evaluator's {name} has {list(tensor.shape)} values, its networks read {sizes.features}.",
                    fix="give the statistics that belong to this evaluator (Comp_v6_KLD01/meta).",
                )
        if words.width != sizes.word:
            raise MotionkitError(
                f"the word vectors of {words.origin} have {words.width} values, the evaluator of {origin} reads "
                f"{sizes.word}.",
                fix="use the our_vab files that were published with this evaluator.",
            )
        self.movement_encoder = movement_encoder
        self.motion_encoder = motion_encoder
        self.text_encoder = text_encoder
        self.register_buffer("mean", mean.detach().clone().float(), persistent=False)
        self.register_buffer("std", std.detach().clone().float(), persistent=False)
        self.words = words
        self.sizes = sizes
        self.tagger: Tagger = tagger
        self.origin = origin
        self.trained_on = trained_on
        self.text_model = None
        # Stored ``word/POS`` tokens by caption; a caption without is tagged. See `use_tokens`.
        self.tokens: dict[str, tuple[str, ...]] = {}
        self._texts: dict[str, Tensor] = {}
        self._cut = False

    def fingerprint(self) -> str:
        """Return the fingerprint of weights, statistics and words."""
        statistics = {"own mean": self.mean, "own std": self.std}
        return fingerprint(fingerprint_tensors({**self.state_dict(), **statistics}), self.words.fingerprint())

    @property
    def latent(self) -> int:
        """Width E of the co-embedding (512 as released)."""
        return self.sizes.latent

    def normalize(self, features: Tensor) -> Tensor:
        """Normalise features with the evaluator's statistics: ``(x - mean) / std``."""
        return (features - self.mean) / self.std

    def encode_motions(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Encode a padded batch of unnormalised features.

        The last movement step reads up to three frames past a motion's end, as given. In the original they are zeros in
        normalised space (``mean`` here) for a dataset's clips, and the generator's output for generated motions.
        `encode_crops` always uses zeros.

        Args:
            features: ``[N, T, F]``.
            lengths: ``[N]`` frames of each motion; whole steps of four are read.

        Returns:
            ``[N, E]`` in the order of the inputs. Differentiable in `features`.
        """
        self.check_width(features)
        if len(lengths) and int(lengths.min()) < UNIT:
            raise MotionkitError(
                f"a motion of {count(int(lengths.min()), 'frame')} cannot be evaluated.",
                why=f"the evaluator reads {UNIT} frames at a time.",
                fix="leave such motions out.",
            )
        return self.encode_normalized(self.normalize(features), lengths.to(features.device))

    def encode_normalized(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Encode ``[N, T, F]`` frames that are already in the evaluator's normalised space."""
        if not len(x):
            return x.new_zeros(0, self.latent)
        latents: Tensor = self.motion_encoder(self.movement_encoder(x, lengths), lengths // UNIT)
        return latents

    def encode_crops(self, features: Tensor, crops: Sequence[Crop], *, clamp: float = 0.0) -> CropLatents:
        """Encode crops of a batch of motions, with zeros after each; see `TMR.encode_crops`.

        A crop of fewer than four frames is not encoded and not finite.
        """
        self.check_width(features)
        return encode_crops(
            features,
            crops,
            normalize=self.normalize,
            encode=self.encode_normalized,
            latent=self.latent,
            clamp=clamp,
            least=UNIT,
        )

    def encode_tokens(self, tokens: Sequence[Sequence[str]]) -> Tensor:
        """Encode N captions given as ``word/POS`` tokens, at most the first 20 of each: ``[N, E]``."""
        if not tokens:
            return self.mean.new_zeros(0, self.latent)
        return self.encode_sentences(self.words.look_up(tokens).to(self.mean.device))

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """Encode captions given as tensors: ``[N, E]``."""
        latents: Tensor = self.text_encoder(*sentences)
        return latents

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent ``[N, E]`` of each text, which is cached.

        Stored tokens are used if `tokens` has them; other texts are tagged. Clauses separated by `` | `` are joined by
        the word *then*. Texts are encoded one at a time, so that a latent does not depend on the other texts of a call.
        """
        for text in dict.fromkeys(texts):
            if text not in self._texts:
                # Not in inference mode, whose tensors cannot be used with gradients later.
                with torch.inference_mode(False), torch.no_grad():
                    self._texts[text] = self.encode_tokens([self.tokens_of(text)])[0]
        return torch.stack([self._texts[text] for text in texts]) if texts else self.mean.new_zeros(0, self.latent)

    def tokens_of(self, text: str) -> tuple[str, ...]:
        """Return the ``word/POS`` tokens of a text, stored or tagged; warn if the evaluator knows none of the words."""
        builtin = self.tagger == "built-in"
        clauses = [self.tokens.get(clause) or tag_caption(clause, builtin=builtin) for clause in text.split(SEPARATOR)]
        tokens = clauses[0]
        for clause in clauses[1:]:
            tokens = (*tokens, _JOIN, *clause)
        if not self.words.knows(tokens):
            _logger.warning(
                "the evaluator knows no word of %r: it cannot tell this caption from another one; use English words "
                "like HumanML3D's",
                text,
            )
        elif len(clauses) > 1 and len(tokens) > MAX_WORDS and not self._cut:
            self._cut = True
            _logger.warning(
                "%r has %d words, of which the evaluator reads %d: the last segments are ignored (a reward per "
                "segment, *-dense, reads each)",
                text,
                len(tokens),
                MAX_WORDS,
            )
        return tokens

    def use_tokens(self, mapping: Mapping[str, Sequence[str]]) -> None:
        """Use stored ``word/POS`` tokens of captions; captions with none are tagged."""
        for text, tokens in mapping.items():
            if tokens:
                self.tokens[text] = tuple(tokens)
        self._texts.clear()

    def whole_text(self, prompt: Prompt) -> str:
        """Return the segments of a prompt joined by `` | ``, for `encode_texts`."""
        return SEPARATOR.join(prompt.segments)

    def check_width(self, features: Tensor) -> None:
        """Refuse features of another width than the evaluator's."""
        width, size = len(self.mean), features.shape[-1]
        if size != width:
            body, data = (_BODIES.get(number, "another body") for number in (width, size))
            raise MotionkitError(
                f"the evaluator of {self.origin} reads {width} features per frame ({body}), these motions have {size} "
                f"({data}).",
                why="there is one released evaluator for HumanML3D and one for KIT-ML.",
                fix="use the evaluator of this data, or train one: motionkit pretrain t2m-evaluator --dataset ...",
            )


def new_evaluator(
    sizes: EvaluatorSizes, mean: Tensor, std: Tensor, words: WordTable, *, tagger: Tagger = "auto", seed: int = 0
) -> T2MEvaluator:
    """Build an evaluator with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = MovementEncoder(sizes), MotionEncoder(sizes), TextEncoder(sizes)
    return T2MEvaluator(*networks, mean, std, words, sizes=sizes, tagger=tagger).eval()
