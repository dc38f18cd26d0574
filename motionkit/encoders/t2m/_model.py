"""The text-to-motion evaluator as motionkit uses it: its networks, its statistics and its words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from motionkit.encoders._crops import Crop, CropLatents, encode_crops
from motionkit.encoders.t2m._network import UNIT, EvaluatorSizes, MotionEncoder, MovementEncoder, TextEncoder
from motionkit.encoders.t2m._words import MAX_WORDS, Sentences, WordTable
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, tag_caption
from motionkit.runs import fingerprint, fingerprint_tensors
from motionkit.text import SEPARATOR, Prompt

_logger = logging.getLogger("motionkit.evaluator")
Tagger = Literal["auto", "built-in"]
_JOIN = "then/ADV"
_BODIES = {263: "HumanML3D", 251: "KIT-ML"}


class T2MEvaluator(nn.Module):
    """Text and motion encoder of Guo et al. (CVPR 2022) with a euclidean co-embedding.

    Its space is what R-precision, MM-Dist and FID of text-to-motion papers are measured in; latents are not normalised
    and are compared by euclidean distance.

    Args:
        movement_encoder: Reads frames without contacts.
        motion_encoder: Reads movement steps.
        text_encoder: Reads words of `words`.
        mean: ``[F]`` the evaluator's own mean (``Comp_v6_KLD01/meta``), not the generator's and not the dataset's.
        std: ``[F]`` its own standard deviation.
        words: The vocabulary.
        sizes: Widths of the three networks.
        tagger: What tags a caption without stored tokens: ``built-in``, the same on every machine, or ``auto``, the
            best that is installed (see `motionkit.motion.tag_caption`).
        origin: Where the weights came from, for messages.
        trained_on: Dataset it was trained on; None where that is not known.

    Attributes:
        tokens: Stored ``word/POS`` tokens by caption; a caption without is tagged. See `use_tokens`.
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
        self.tokens: dict[str, tuple[str, ...]] = {}
        self._texts: dict[str, Tensor] = {}
        self._cut = False

    def fingerprint(self) -> str:
        """Return the fingerprint of weights, statistics and words, the same wherever they lie."""
        own = {"own mean": self.mean, "own std": self.std}
        return fingerprint(fingerprint_tensors({**self.state_dict(), **own}), self.words.fingerprint())

    @property
    def latent(self) -> int:
        """Width E of the co-embedding (512 as released)."""
        return self.sizes.latent

    def normalize(self, features: Tensor) -> Tensor:
        """Move unnormalised features into the evaluator's own normalised space: ``(x - mean) / std``."""
        return (features - self.mean) / self.std

    def encode_motions(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Encode a padded batch of unnormalised features.

        The last movement step reads up to three frames past a motion's end, as given. The original finds zeros of the
        normalised space there (which is ``mean`` here) after a dataset's clips, and whatever the generator made after
        generated ones. `encode_crops` always takes zeros.

        Args:
            features: ``[N, T, F]``.
            lengths: ``[N]`` frames of each motion; whole steps of four are read.

        Returns:
            ``[N, E]`` in the order of the inputs. Differentiable in `features`.

        Raises:
            MotionkitError: Another width, or a motion of fewer than four frames.
        """
        self.check_width(features)
        if len(lengths) and int(lengths.min()) < UNIT:
            raise MotionkitError(
                f"a motion of {int(lengths.min())} frame(s) cannot be evaluated.",
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
        """Encode crops of a batch of motions, with zeros after each; see `motionkit.encoders.tmr._model.TMR.encode_crops`.

        Args:
            features: ``[N, T, F]`` unnormalised; frames outside all crops may hold anything.
            crops: S crops inside their motions; one of fewer than four frames is not encoded and not finite.
            clamp: Cut normalised values to ``[-clamp, clamp]``; 0 leaves them.

        Returns:
            One row per crop, in order. Differentiable in `features`.
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
        """Encode captions that are tensors already: ``[N, E]``."""
        latents: Tensor = self.text_encoder(*sentences)
        return latents

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent ``[N, E]`` of each text; a text is encoded once in the life of the model.

        Stored tokens are used where `tokens` has them; other texts are tagged. The clauses of a text joined by `` | ``
        are joined by the word *then*. Texts pass the network one at a time, so that a value never depends on which
        other texts were new in the same call.
        """
        for text in dict.fromkeys(texts):
            if text not in self._texts:
                # Not inference mode, whose tensors no later gradient may meet.
                with torch.inference_mode(False), torch.no_grad():
                    self._texts[text] = self.encode_tokens([self.tokens_of(text)])[0]
        return torch.stack([self._texts[text] for text in texts]) if texts else self.mean.new_zeros(0, self.latent)

    def tokens_of(self, text: str) -> tuple[str, ...]:
        """Return the ``word/POS`` tokens of a text, stored or tagged, with a warning where they say nothing."""
        builtin = self.tagger == "built-in"
        clauses = [self.tokens.get(clause) or tag_caption(clause, builtin=builtin) for clause in text.split(SEPARATOR)]
        tokens = clauses[0]
        for clause in clauses[1:]:
            tokens = (*tokens, _JOIN, *clause)
        if not self.words.knows(tokens):
            _logger.warning(
                "the evaluator knows no word of %r: it cannot tell this caption from another one; use English words "
                "of the kind HumanML3D uses",
                text,
            )
        elif len(clauses) > 1 and len(tokens) > MAX_WORDS and not self._cut:
            self._cut = True
            _logger.warning(
                "%r has %d words, of which the evaluator reads %d: the last segments are not seen (a reward per "
                "segment, *-dense, reads each)",
                text,
                len(tokens),
                MAX_WORDS,
            )
        return tokens

    def use_tokens(self, mapping: Mapping[str, Sequence[str]]) -> None:
        """Take the stored ``word/POS`` tokens of captions; captions with none are left to the tagger."""
        for text, tokens in mapping.items():
            if tokens:
                self.tokens[text] = tuple(tokens)
        self._texts.clear()

    def whole_text(self, prompt: Prompt) -> str:
        """Return the text of a whole prompt in the form `encode_texts` reads best: its segments, joined by `` | ``."""
        return SEPARATOR.join(prompt.segments)

    def check_width(self, features: Tensor) -> None:
        """Refuse features of another width than the evaluator's.

        Raises:
            MotionkitError: With both widths.
        """
        width, found = len(self.mean), features.shape[-1]
        if found != width:
            own, other = (_BODIES.get(size, "another body") for size in (width, found))
            raise MotionkitError(
                f"the evaluator of {self.origin} reads {width} features per frame ({own}), these motions have {found} "
                f"({other}).",
                why="there is one released evaluator for HumanML3D and one for KIT-ML.",
                fix="use the evaluator of this data, or train one: motionkit pretrain t2m-evaluator --dataset ...",
            )
