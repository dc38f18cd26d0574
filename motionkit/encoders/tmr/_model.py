"""TMR as motionkit uses it: both encoders, TMR's own statistics, and a text model in front."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from motionkit.encoders._crops import Crop, CropLatents, encode_crops
from motionkit.encoders.tmr._network import ActorDecoder, ActorEncoder, Latent
from motionkit.encoders.tmr._patch import fold, unfold
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.runs import fingerprint_tensors
from motionkit.text import SEPARATOR, Prompt, TextEncoder, TextFeatures

_STD_EPS = 1e-12
_SENTENCE_MODELS = ("minilm", "stored")


class TMR(nn.Module):
    """Text-to-motion retrieval model.

    Args:
        motion_encoder: Reads features normalised with `mean` and `std`.
        text_encoder: Reads the token features of `text_model`.
        mean: ``[F]`` TMR's own mean, not the generator's. An encoder that reads p * F features takes p frames a token.
        std: ``[F]`` TMR's own standard deviation.
        text_model: Turns texts into token features; None for a model that only gets features.
        motion_decoder: Needed for training only.
        origin: Where the weights came from, for messages.
        trained_on: Dataset it was trained on; None where that is not known.
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
        if text_model is not None and text_model.width != text_encoder.sizes.features:
            raise MotionkitError(
                f"the text model {text_model.name!r} gives {text_model.width} features per token, "
                f"the TMR text encoder of {origin} reads {text_encoder.sizes.features}.",
                why="a TMR text encoder only understands the text model it was trained with.",
                fix="choose that model with --reward.text-model (768 features: distilbert; 384: minilm or stored).",
            )
        self.patch = width // len(mean)
        self.motion_encoder = motion_encoder
        self.text_encoder = text_encoder
        self.motion_decoder = motion_decoder
        self.register_buffer("mean", mean.detach().clone().float(), persistent=False)
        self.register_buffer("std", std.detach().clone().float(), persistent=False)
        self.text_model = text_model
        self.origin = origin
        self.trained_on = trained_on
        self._texts: dict[str, Tensor] = {}

    def fingerprint(self) -> str:
        """Return the fingerprint of weights and statistics, the same wherever they lie; not of the text model."""
        return fingerprint_tensors({**self.state_dict(), "own mean": self.mean, "own std": self.std})

    @property
    def latent(self) -> int:
        """Width D of the joint space."""
        return self.motion_encoder.sizes.latent

    def normalize(self, features: Tensor) -> Tensor:
        """Move unnormalised features into TMR's own normalised space: ``(x - mean) / (std + 1e-12)``."""
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
        """Decode ``[N, D]`` latents into ``[N, T, F]`` normalised features, exactly 0 where ``mask [N, T]`` is False.

        Raises:
            MotionkitError: The model has no decoder.
        """
        if self.motion_decoder is None:
            raise MotionkitError(f"the TMR of {self.origin} has no motion decoder.")
        tokens = fold(mask[..., None].to(latent.dtype), mask, self.patch)[1]
        return unfold(self.motion_decoder(latent, tokens), mask, self.patch)

    def encode_tokens(self, texts: TextFeatures) -> Latent:
        """Encode token features, as one batch."""
        latent: Latent = self.text_encoder(texts.tokens, texts.mask)
        return latent

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent mean ``[N, D]`` of each text; a text is encoded once in the life of the model.

        Texts pass the network one at a time: a value then never depends on which other texts were new in the same
        call, which a run that resumes half-way needs to come to the same bits.

        Raises:
            MotionkitError: No text model was given.
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
        """Split the text into clauses for a model of one vector per sentence; other models read it whole."""
        clauses = text.split(SEPARATOR)
        if model.name not in _SENTENCE_MODELS or len(clauses) == 1:
            return model.encode([text])
        # One sentence vector per clause, [C, 1, F], becomes the token sequence [1, C, F].
        tokens = model.encode(clauses).tokens.flatten(0, 1)[None]
        return TextFeatures(tokens, torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device))

    def whole_text(self, prompt: Prompt) -> str:
        """Return the text of a whole prompt in the form this TMR's text model reads best."""
        sentence = self.text_model is not None and self.text_model.name in _SENTENCE_MODELS
        return SEPARATOR.join(prompt.segments) if sentence else prompt.text

    def encode_crops(self, features: Tensor, crops: Sequence[Crop], *, clamp: float = 0.0) -> CropLatents:
        """Encode crops of a batch of motions, all together in length buckets; positions restart in each crop.

        Args:
            features: ``[N, T, F]`` unnormalised; frames outside all crops may hold anything.
            crops: S crops inside their motions; one of length 0 is not encoded.
            clamp: Cut normalised values to ``[-clamp, clamp]``; 0 leaves them.

        Returns:
            One row per crop, in order. Differentiable in `features`.
        """
        self.check_width(features)

        def encode(x: Tensor, lengths: Tensor) -> Tensor:
            return self.encode_normalized(x, torch.arange(x.shape[1], device=x.device) < lengths[:, None]).mu

        return encode_crops(features, crops, normalize=self.normalize, encode=encode, latent=self.latent, clamp=clamp)

    def check_width(self, features: Tensor) -> None:
        """Refuse features of another width than the motion encoder's.

        Raises:
            MotionkitError: With both widths.
        """
        width = len(self.mean)
        if features.shape[-1] != width:
            raise MotionkitError(
                f"the TMR of {self.origin} reads {width} features per frame, these motions have {features.shape[-1]}.",
                why="the released KIT model, too, reads 263-d HumanML3D features at 20 fps."
                if features.shape[-1] == 251
                else "a TMR scores the feature layout it was trained on.",
                fix="use a TMR trained on this data: motionkit pretrain tmr --dataset ...",
            )
