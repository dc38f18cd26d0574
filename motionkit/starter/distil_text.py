"""Distils the starter's student of MiniLM: ``python -m motionkit.starter.distil_text``.

Needs the extra ``text``; takes about twelve CPU-minutes on one thread. The student learns from generated sentences
(subject, action, manner; joined and varied) and from the catalogue's training phrases with eight subjects each. Its
word vectors start at the least-squares solution, which reaches a mean cosine of 0.95. It is evaluated on held-out
wordings: the last two phrases of every class of the catalogue, every sixth further action, and sentences written by
hand.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.starter._catalogue import CATALOGUE, embeddings, student_path
from motionkit.text import MiniLMEncoder, StudentNetwork, words_of, write_student

_TWINS = set("bdgmnpt")  # consonants that double before -ing: hop, hopping
_TAKEN = {"lies": "lying", "ties": "tying", "begins": "beginning", "sidesteps": "sidestepping", "ice": "ice"}

_SUBJECTS = 8  # subjects of each training phrase
_BATCH = 256
_RATE = 2e-3
_VECTORS = 0.1  # factor on the learning rate of the word vectors, which start at the least-squares solution
_RIDGE = 0.3


@cache
def lists() -> dict[str, list[str]]:
    """Return the parts of sentences: ``subjects``, ``actions``, ``manners``, ``joins`` and ``unseen`` sentences."""
    document: dict[str, list[str]] = json.loads(files(__package__).joinpath("wordings.json").read_text("utf-8"))
    return document


def phrases(*, seen: bool = True) -> list[str]:
    """Return the training verb phrases, or the held-out ones."""
    catalogue = [phrase for entry in CATALOGUE for phrase in (entry.phrases[:-2] if seen else entry.phrases[-2:])]
    # Every sixth further action is held out as well.
    further = [phrase for i, phrase in enumerate(lists()["actions"]) if (i % 6 != 5) == seen]
    return list(dict.fromkeys(catalogue + further))


def vocabulary() -> list[str]:
    """Return every word of the catalogue and of the lists, in all their verb forms, sorted."""
    words = {","}
    for phrase in phrases() + phrases(seen=False):
        for form in (phrase, gerund(phrase), base(phrase), *(f"{s} {phrase}" for s in lists()["subjects"])):
            words.update(words_of(form))
    for name in ("manners", "joins", "unseen"):
        for text in lists()[name]:
            words.update(words_of(text))
    return sorted(words)


def base(phrase: str) -> str:
    """Return ``"walk around"`` for ``"walks around"``; phrases that do not begin with a verb in -s are unchanged."""
    first, _, tail = phrase.removeprefix("is ").partition(" ")
    if first in ("does", "goes", "has") or not first.endswith("s"):
        first = {"does": "do", "goes": "go", "has": "have"}.get(first, first)
    elif first in ("lies", "ties"):
        first = first[:-1]
    elif first.endswith("ies"):
        first = first[:-3] + "y"
    elif first.endswith(("shes", "ches", "sses", "xes")):
        first = first[:-2]
    else:
        first = first[:-1]
    return f"{first} {tail}".strip()


def gerund(phrase: str) -> str:
    """Return ``"hopping around"`` for ``"hops around"``."""
    third, _, tail = phrase.removeprefix("is ").partition(" ")
    verb = base(third)
    if third in _TAKEN:
        verb = _TAKEN[third]
    elif verb.endswith("e") and not verb.endswith("ee"):
        verb = verb[:-1] + "ing"
    elif re.fullmatch(r"[^aeiou]*[aeiou][^aeiou]", verb) and verb[-1] in _TWINS:
        verb = verb + verb[-1] + "ing"
    elif not verb.endswith(("ly", "ing")):
        verb += "ing"
    return f"{verb} {tail}".strip()


def sentences(count: int, *, seed: int, actions: Sequence[str], odd: float = 0.25) -> Iterator[str]:
    """Yield distinct sentences, all ending in a full stop.

    Args:
        count: Number of sentences.
        seed: Seed of the draws.
        actions: Verb phrases to use.
        odd: Fraction of sentences in which one word is replaced by a random word of the vocabulary, so that every word
            occurs in many contexts.
    """
    draw = random.Random(seed)
    known_words, parts = vocabulary(), lists()
    made: set[str] = set()
    while len(made) < count:
        text = _sentence(draw, actions, parts)
        words = words_of(text)
        if draw.random() < odd:
            words[draw.randrange(len(words))] = draw.choice(known_words)
        if draw.random() < 0.04:
            words = [word for word in words if word not in ("a", "an", "the")]
        text = " ".join(words).replace(" ,", ",").strip(" ,") + "."
        if text not in made and len(text) > 1:
            made.add(text)
            yield text


def _sentence(draw: random.Random, actions: Sequence[str], parts: dict[str, list[str]]) -> str:
    """Return subject, action and possibly a manner or a second action; 15 % have no subject."""
    kind = draw.random()
    turn = gerund if kind < 0.2 else base if 0.2 <= kind < 0.3 else str
    text = turn(draw.choice(actions))
    if kind < 0.12:
        text = f"is {text}"
    if draw.random() < 0.45:
        manner = draw.choice(parts["manners"])
        text = f"{manner} {text}" if manner.endswith("ly") and draw.random() < 0.4 else f"{text} {manner}"
    if draw.random() < 0.2:
        text += draw.choice(parts["joins"]) + turn(draw.choice(actions))
    if 0.12 <= kind < 0.27:
        return text
    subject = draw.choice(parts["subjects"]) if draw.random() < 0.6 else "a person"
    return f"{subject} {text}"


def teach(teacher: MiniLMEncoder, texts: Sequence[str]) -> Tensor:
    """Return MiniLM's embeddings ``[N, 384]``; texts of equal length share a batch, without padding."""
    ids = [teacher.tokenizer(text)["input_ids"] for text in texts]
    out = torch.empty(len(texts), teacher.width)
    for length in sorted({len(row) for row in ids}):
        same = [i for i, row in enumerate(ids) if len(row) == length]
        for first in range(0, len(same), 128):
            part = same[first : first + 128]
            with torch.no_grad():
                hidden = teacher.model(input_ids=torch.tensor([ids[i] for i in part])).last_hidden_state
            out[part] = F.normalize(hidden.mean(1), dim=-1)
    return out


def indices(texts: Sequence[str], words: Mapping[str, int]) -> Tensor:
    """Return ``[N, L]`` int64 word indices, 0 past each text's end."""
    rows = [torch.tensor([words[word] for word in words_of(text)]) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def least_squares(network: StudentNetwork, index: Tensor, target: Tensor) -> None:
    """Set the word vectors and the offset to the ridge solution of bag-of-words for `target` (``[N, F]``)."""
    count = network.words.num_embeddings
    bags = torch.zeros(len(index), count + 1)  # [N, V + 2]: padding, words, offset
    bags.scatter_add_(1, index, (index != 0).float() * (index != 0).sum(1, keepdim=True).rsqrt())
    bags[:, -1] = 1.0
    solved = torch.linalg.solve(bags.T @ bags + _RIDGE * torch.eye(count + 1), bags.T @ target)
    with torch.no_grad():
        network.vectors.weight.copy_(solved[:-1])
        network.vectors.weight[0] = 0.0
        network.offset.copy_(solved[-1])


def train(network: StudentNetwork, index: Tensor, target: Tensor, *, steps: int) -> None:
    """Train on ``1 - cosine`` with Adam and a cosine schedule, batches of sentences of similar length."""
    vectors = [network.vectors.weight, network.offset]
    rest = [value for name, value in network.named_parameters() if not name.startswith(("vectors", "offset"))]
    groups = [{"params": vectors, "scale": _VECTORS}, {"params": rest, "scale": 1.0}]
    optimizer = torch.optim.AdamW(groups, lr=_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    lengths = (index != 0).sum(1)
    step = 0
    while step < steps:
        batches: list[Tensor] = []
        for chunk in torch.randperm(len(index)).split(16 * _BATCH):
            batches += chunk[lengths[chunk].argsort()].split(_BATCH)
        for number in torch.randperm(len(batches)).tolist()[: steps - step]:
            batch = batches[number]
            for group in optimizer.param_groups:
                part = min(1.0, step / 200) * 0.5 * (1 + math.cos(math.pi * step / steps))
                group["lr"] = _RATE * part * group["scale"]
            predicted = network(index[batch, : int(lengths[batch].max())])
            loss = 1 - (predicted * target[batch]).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            step += 1


def held_out(teacher: MiniLMEncoder) -> dict[str, tuple[list[str], Tensor]]:
    """Return held-out sentences with MiniLM's embeddings."""
    texts = {
        "by hand": lists()["unseen"],
        "by hand, with full stop": [f"{text}." for text in lists()["unseen"]],
        "other actions": list(sentences(600, seed=900, actions=phrases(seen=False), odd=0)),
        "other combinations": list(sentences(600, seed=901, actions=phrases(), odd=0)),
    }
    taught = {name: (some, teach(teacher, some)) for name, some in texts.items()}
    stored, vectors = embeddings()
    rows = [i for i, text in enumerate(stored) if text not in _training_captions()]
    return {**taught, "captions": ([stored[i] for i in rows], F.normalize(vectors[rows], dim=-1))}


def _training_captions() -> list[str]:
    every = [text for entry in CATALOGUE for i in range(len(entry.phrases) - 2) for text in entry.sentences(i)]
    return list(dict.fromkeys(every))


def _lessons(count: int, tests: Mapping[str, tuple[list[str], Tensor]]) -> list[str]:
    """Return the training sentences, without those that match held-out ones or are too long for the student."""
    seen = [phrase for entry in CATALOGUE for phrase in entry.phrases[:-2]]
    plain = [f"{subject} {phrase}." for phrase in dict.fromkeys(seen) for subject in lists()["subjects"][:_SUBJECTS]]
    every = [*sentences(count, seed=0, actions=phrases()), *plain, *_training_captions()]
    unseen = {tuple(words_of(text)) for texts, _ in tests.values() for text in texts}
    words = {text: tuple(words_of(text)) for text in every}
    return [
        text for text, sequence in words.items() if sequence not in unseen and len(sequence) <= StudentNetwork.longest
    ]


def build(out: Path, *, count: int, steps: int) -> dict[str, tuple[float, float]]:
    """Distil and write the student.

    Returns:
        Mean and 5th percentile of the cosine to MiniLM, by kind of held-out sentence.
    """
    torch.manual_seed(0)
    teacher = MiniLMEncoder()
    tests = held_out(teacher)
    lessons, words = _lessons(count, tests), vocabulary()
    numbers = {word: number for number, word in enumerate(words, start=1)}
    index, target = indices(lessons, numbers), teach(teacher, lessons)
    network = StudentNetwork(len(words), features=teacher.width)
    with torch.no_grad():
        network.words.weight[1:] = _start(teacher, words, network.words.embedding_dim)
    least_squares(network, index, target)
    train(network, index, target, steps=steps)
    write_student(out, words, network)
    figures = {}
    with torch.no_grad():
        for name, (texts, expected) in tests.items():
            cosine = (network(indices(texts, numbers)) * expected).sum(-1)
            figures[name] = (float(cosine.mean()), float(cosine.quantile(0.05)))
    return figures


def _start(teacher: MiniLMEncoder, words: Sequence[str], width: int) -> Tensor:
    """Return first word embeddings ``[V, width]``: principal components of those of MiniLM's word pieces."""
    table = teacher.model.embeddings.word_embeddings.weight.detach()
    ids = [teacher.tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    pieces = torch.stack([table[row].mean(0) for row in ids])
    pieces = pieces - pieces.mean(0)
    _, _, axes = torch.pca_lowrank(pieces, q=width, center=False)
    components = pieces @ axes
    return components / components.std()


def main() -> int:
    """Distil, print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m motionkit.starter.distil_text", description=__doc__)
    parser.add_argument("--sentences", type=int, default=44_000, help="made sentences to learn from")
    parser.add_argument("--steps", type=int, default=4_600, help="updates")
    parser.add_argument("--out", type=Path, default=student_path(), help="file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        figures = build(arguments.out, count=arguments.sentences, steps=arguments.steps)
    except MotionkitError as error:
        sys.stderr.write(f"{error.message} {error.why}\n{error.fix}\n")
        return error.code
    for name, (mean, low) in figures.items():
        sys.stdout.write(f"cosine to MiniLM, {name}: {mean:.3f} (5th percentile {low:.3f})\n")
    sys.stdout.write(f"wrote {arguments.out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
