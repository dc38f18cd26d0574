"""Inputs of Sa2VA, as in its published code: prompts, tiles of an image, and the whole image.

The vision encoder sees up to N square tiles, whose grid is close to the image's aspect, and then a thumbnail if there
is more than one; SAM sees the image squeezed to a square.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from motionkit.errors import MotionkitError

IMAGE, IMAGE_BEGIN, IMAGE_END = "<IMG_CONTEXT>", "<img>", "</img>"
REGION_BEGIN, REGION_END, SEG = "<vp>", "</vp>", "[SEG]"
_CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_TEMPLATES = {
    "qwen_chat": (_CHAT, "<|im_end|>"),
    "internlm2_chat": (_CHAT, "<|im_end|>"),
    "phi3_chat": ("<|user|>\n{}<|end|>\n<|assistant|>\n", "<|end|>"),
}
"""Chat templates, and the token that ends an answer, by name."""

_MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
_STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]  # of ImageNet


class Words:
    """Prompts and answers as tokens."""

    def __init__(self, tokenizer: Any, template: str, vocabulary: int, longest: int) -> None:
        if (name := template.replace("-", "_")) not in _TEMPLATES:
            raise MotionkitError(
                f"the model's chat template {template!r} is not known.", fix=f"known are {', '.join(_TEMPLATES)}."
            )
        self._chat, end = _TEMPLATES[name]
        self._tokenizer, self.longest = tokenizer, longest
        self.image, self.seg, self.end = (self._token_number(token) for token in (IMAGE, SEG, end))
        for token in (IMAGE_BEGIN, IMAGE_END, REGION_BEGIN, REGION_END):
            self._token_number(token)
        added = {str(token): number for number, token in tokenizer.added_tokens_decoder.items()}
        spelled = {*added, IMAGE, IMAGE_BEGIN, IMAGE_END, REGION_BEGIN, REGION_END, SEG, end}
        self._special = re.compile("|".join(map(re.escape, sorted(spelled, key=len, reverse=True))))
        barred = [number for number in {*added.values(), *tokenizer.all_special_ids} if number != self.end]
        self.barred = torch.zeros(vocabulary, dtype=torch.bool)
        self.barred[barred] = True
        self.barred[len(tokenizer) :] = True  # rows of the output that are not tokens

    def _token_number(self, token: str) -> int:
        number = self._tokenizer.convert_tokens_to_ids(token)
        if number is None or number == self._tokenizer.unk_token_id:
            raise MotionkitError(
                f"the tokenizer has no token {token}.",
                why="Sa2VA's tokens for images, regions and masks were added to it.",
                fix="take the tokenizer files that came with the model.",
            )
        return int(number)

    def about_region(self, cells: int, region: int, question: str) -> list[int]:
        """Return the prompt for a caption of a region."""
        picture = f"{IMAGE_BEGIN}{IMAGE * cells}{IMAGE_END}"
        marked = f"\nThere are 1 part regions in the picture: region1{REGION_BEGIN}{IMAGE * region}{REGION_END}.\n"
        return self._ids(self._chat.format(picture + marked + question))

    def about_mask(self, cells: int, caption: str) -> list[int]:
        """Return the prompt for a mask of a caption, with the answer up to [SEG]."""
        picture = f"{IMAGE_BEGIN}{IMAGE * cells}{IMAGE_END}"
        question = f"{picture}\n Please segment {self.plain(caption).rstrip('. ')} in this image."
        return [*self._ids(self._chat.format(question) + "Sure, "), self.seg]

    def encode(self, captions: Sequence[str]) -> Tensor:
        """Return ``[N, L]`` captions, each with its end token, padded with it."""
        rows = [[*self._ids(self.plain(caption))[: self.longest - 1], self.end] for caption in captions]
        width = max(map(len, rows), default=1)
        return torch.tensor([[*row, *[self.end] * (width - len(row))] for row in rows], dtype=torch.int64)

    def decode(self, ids: Tensor) -> list[str]:
        """Return the texts of ``[N, L]`` ids, each up to its end."""
        rows = [row[: row.index(self.end)] if self.end in row else row for row in ids.tolist()]
        return [str(text).strip() for text in self._tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def plain(self, text: str) -> str:
        """Return a text without special tokens, so that a caption cannot put [SEG] or an end into a prompt."""
        while (cut := self._special.sub(" ", text)) != text:
            text = cut  # the rest may form a token again
        return text

    def spelled(self, text: str) -> list[int]:
        """Return the tokens of a text as it is, special ones included."""
        return self._ids(text)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def tiles_of(image: NDArray[np.uint8], side: int, most: int) -> Tensor:
    """Return ``[T, 3, side, side]`` of ``[H, W, 3]``: up to `most` tiles, row by row, and if several a thumbnail."""
    picture = Image.fromarray(image)
    columns, rows = grid_of(picture.width, picture.height, side, most)
    resized = picture.resize((columns * side, rows * side))
    tiles = [
        resized.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
        for row in range(rows)
        for column in range(columns)
    ]
    if len(tiles) > 1:
        tiles.append(picture.resize((side, side)))
    return torch.stack([_normalised(tile) for tile in tiles])


def square_of(image: NDArray[np.uint8], side: int) -> Tensor:
    """Return ``[3, side, side]``: the whole image ``[H, W, 3]``, squeezed."""
    return _normalised(Image.fromarray(image).resize((side, side)))


def grid_of(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    """Return columns and rows of tiles whose aspect is closest to an image's.

    Of two that are equally close, the larger is taken if the image fills more than half of it.
    """
    best, gap = (1, 1), float("inf")
    for columns, rows in _grids(most):
        distance = abs(width / height - columns / rows)
        fills = width * height > 0.5 * side * side * columns * rows
        if distance < gap or (distance == gap and fills):
            best, gap = (columns, rows), distance
    return best


@lru_cache(maxsize=16)
def _grids(most: int) -> tuple[tuple[int, int], ...]:
    pairs = ((columns, rows) for columns in range(1, most + 1) for rows in range(1, most // columns + 1))
    return tuple(sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair)))


def _normalised(picture: Image.Image) -> Tensor:
    pixels = torch.from_numpy(np.asarray(picture, np.float32).copy()).permute(2, 0, 1) / 255
    return (pixels - _MEAN) / _STD
