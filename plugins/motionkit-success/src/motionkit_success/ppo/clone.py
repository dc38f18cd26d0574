"""Behaviour cloning: an actor learns the actions of episodes, before it is trained on a reward."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from motionkit.errors import MotionkitError
from motionkit.rl import stable_hash
from motionkit.training.learner import out_of_range
from motionkit_success.actor import Actor, observation
from motionkit_success.actor_settings import ActorSpec, parts_in_words
from motionkit_success.episodes import Episodes, open_episodes, task_of
from motionkit_success.ppo.settings import CloneSettings

_logger = logging.getLogger("motionkit.ppo")
_FEWEST = 2
_AT_ONCE = 1024


@dataclass(frozen=True)
class Demonstrations:
    """Pairs of observation and action, of successful episodes."""

    episodes: Episodes
    train: NDArray[np.int64]  # [M] frames to learn from, before their episode's first success
    val: NDArray[np.int64]  # [V] frames of other episodes, for early stopping
    actions: NDArray[Any]  # [F, A] float32, or [F] int64 of choices, of all frames of `episodes`
    states: NDArray[np.float32] | None  # [F, S]; None if the actor reads pictures
    notes: tuple[str, ...]  # what was left out

    @property
    def fingerprint(self) -> str:
        """Hash of frames, labels and numbers."""
        marks = [mark for record in self.episodes.records for mark in (record.content, *record.columns.values())]
        return f"{stable_hash('/'.join(marks)):016x}"

    def observed(self, spec: ActorSpec, index: NDArray[np.int64]) -> NDArray[Any]:
        """Return what an actor of a spec reads of frames ``[M]``."""
        if self.states is not None:
            return self.states[index]
        return observation(spec, np.zeros((len(index), 0), np.float32), self.episodes.read(index))


def open_demonstrations(place: Path, spec: ActorSpec, settings: CloneSettings, *, seed: int) -> Demonstrations:
    """Open episodes to clone, and refuse those that an actor of a spec cannot learn from."""
    episodes = open_episodes(place)
    _require_fit(episodes, spec, place)
    notes = list(episodes.notes)
    good = [
        number for number, record in enumerate(episodes.records)
        if record.positive and record.frames > 1 and record.labels[0] == "0"
    ]  # fmt: skip
    if not episodes.labelled:
        good = [number for number, record in enumerate(episodes.records) if record.frames > 1]
        notes.append(f"{place} does not say which episodes succeed: all are cloned.")
    elif not good:
        raise MotionkitError(
            f"none of the {len(episodes.records)} episodes of {place} succeeds.",
            why="a policy that does what was done in them would fail as they do.",
            fix="give demonstrations of success: motionkit reward-collect --policy scripted makes them if the "
            "environment knows how.",
        )
    elif left := len(episodes.records) - len(good):
        notes.append(f"{left} of {len(episodes.records)} episodes without a success are not cloned.")
    good = good[: settings.episodes or None]
    if len(good) < _FEWEST:
        raise MotionkitError(
            f"{len(good)} episode of {place} can be cloned.", why="one is learned from, another says when to stop.",
            fix="give two or more.",
        )  # fmt: skip
    episodes = episodes.chosen(good)
    # The action of an episode's last row has no meaning. After the first success demonstrations wait, and a policy
    # would learn to wait.
    first = np.append(True, episodes.episode[1:] != episodes.episode[:-1])
    reached = np.split(episodes.labels.astype(bool), np.flatnonzero(first)[1:])
    out = np.append(first[1:], True) | np.concatenate([np.logical_or.accumulate(flags) for flags in reached])
    order = sorted(range(len(good)), key=lambda number: stable_hash(f"{seed}/{episodes.records[number].content}"))
    held_out = min(len(good) - 1, max(1, round(settings.val_share * len(good))))
    inside = np.isin(episodes.episode, order[:held_out])
    actions = episodes.column("action")
    states = episodes.column("state") if spec.kind == "mlp" else None
    if states is None:
        episodes.require_whole()
    targets: NDArray[Any]
    if spec.choices:
        targets = actions[:, 0].round().astype(np.int64)
        if (targets < 0).any() or (targets >= spec.choices).any():
            raise MotionkitError(f"an action of {place} is not one of the environment's {spec.choices} choices.")
    else:
        targets = actions.clip(np.array(spec.low, np.float32), np.array(spec.high, np.float32))
        if far := int((np.abs(targets - actions).max(1) > 1e-4)[~out].sum()):
            notes.append(
                f"{far} of {int((~out).sum())} actions are beyond the environment's limits: the limits are taken."
            )
    return Demonstrations(
        episodes, np.flatnonzero(~inside & ~out), np.flatnonzero(inside & ~out), targets, states, tuple(notes)
    )


def _require_fit(episodes: Episodes, spec: ActorSpec, place: Path) -> None:
    if "action" not in episodes.columns:
        raise MotionkitError(
            f"the episodes of {place} have no actions.",
            why=" ".join(episodes.notes) or "they were collected before actions were kept, or by another tool.",
            fix="collect them again: motionkit reward-collect --policy scripted, or --policy RUN",
        )
    theirs, here = task_of(episodes.environment), task_of(spec.environment)
    if theirs and here and theirs != here:
        raise MotionkitError(
            f"the episodes of {place} are of {theirs}, and the environment of this run is {here}.",
            fix=f"--env {episodes.environment['name']}, or episodes of {here}.",
        )
    width = 1 if spec.choices else len(spec.low)
    if (episodes.columns["action"], episodes.manifest.choices) != (width, spec.choices):
        raise MotionkitError(
            f"the actions of {place} are not those of the environment.",
            why=f"they have {_in_words(episodes.columns['action'], episodes.manifest.choices)}; the environment's have "
            f"{_in_words(width, spec.choices)}.",
            fix="choose the environment that they were collected in.",
        )
    theirs_of, ours_of = episodes.manifest.state_parts, spec.state_parts
    other = theirs_of and ours_of and [*theirs_of.items()] != [*ours_of.items()]
    if spec.kind == "mlp" and (other or episodes.columns.get("state") != spec.state_size):
        found = parts_in_words(width, theirs_of) if (width := episodes.columns.get("state", 0)) else "no numbers"
        raise MotionkitError(
            f"the states of {place} are not those of the environment.",
            why=f"they have {found}; the environment's have {parts_in_words(spec.state_size, ours_of)}.",
            fix="choose the environment that they were collected in; or --policy pixels, which reads pictures.",
        )
    if spec.kind == "pixels" and dict(episodes.cameras) != dict(spec.cameras):
        raise MotionkitError(
            f"the cameras of {place} are not those of the environment.",
            why=f"they are {dict(episodes.cameras)}, not {dict(spec.cameras)}.",
            fix="choose the environment that they were collected in; or --policy mlp, which reads the state.",
        )


def _in_words(width: int, choices: int) -> str:
    return f"one of {choices} choices" if choices else f"{width} numbers"


def clone(actor: Actor, data: Demonstrations, settings: CloneSettings, *, seed: int) -> dict[str, Any]:
    """Train an actor on demonstrations (Pomerleau 1989), in place.

    The loss is the squared error of the mean action in units of half its range, or the cross-entropy of a choice. The
    weights with the lowest loss on held-out episodes are kept. The standard deviation of each number for exploration is
    then its held-out error, at least `CloneSettings.spread`.

    Returns:
        ``episodes``, ``pairs``, ``epochs``, ``best_epoch``, ``loss`` and ``before`` (held-out).
    """
    network, rng = actor.network, np.random.default_rng(seed)
    network.set_training_mode(True)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    before = best = _held_out(actor, data)
    kept, best_epoch, epoch = copy.deepcopy(network.state_dict()), 0, 0
    for epoch in range(1, settings.epochs + 1):
        for batch in np.array_split(rng.permutation(data.train), max(1, len(data.train) // settings.batch_size)):
            optimizer.zero_grad()
            _loss(actor, data, batch).mean().backward()
            optimizer.step()
        loss = _held_out(actor, data)
        if not np.isfinite(loss):
            raise out_of_range(
                "the loss of cloning is not finite.", "its network gives no number", settings.learning_rate
            )
        if loss < best:
            best, best_epoch, kept = loss, epoch, copy.deepcopy(network.state_dict())
        elif epoch - best_epoch >= settings.patience:
            break
    network.load_state_dict(kept)
    if not actor.spec.choices:
        _spread(actor, data, settings.spread)
    return {
        "episodes": len(data.episodes.records), "pairs": len(data.train) + len(data.val), "epochs": epoch,
        "best_epoch": best_epoch, "before": before, "loss": best,
    }  # fmt: skip


def _loss(actor: Actor, data: Demonstrations, index: NDArray[np.int64]) -> Tensor:
    """Return the loss of each frame ``[M]``."""
    network = actor.network
    seen = torch.as_tensor(data.observed(actor.spec, index), device=network.device)
    target = torch.as_tensor(data.actions[index], device=network.device)
    distribution: Any = network.get_distribution(seen).distribution
    if actor.spec.choices:
        return F.cross_entropy(distribution.logits, target, reduction="none")
    error: Tensor = (distribution.mean - target) / _half(actor)
    return error.square().mean(-1)


def _half(actor: Actor) -> Tensor:
    """Return half of the range of each number, ``[A]``; 1 if it is unbounded."""
    low, high = (np.array(side, np.float32) for side in (actor.spec.low, actor.spec.high))
    half = np.where(high - low < 1e6, (high - low) / 2, 1).clip(1e-6)
    return torch.as_tensor(half.astype(np.float32), device=actor.network.device)


def _held_out(actor: Actor, data: Demonstrations) -> float:
    with torch.no_grad():
        parts = [_loss(actor, data, part) for part in _pieces(data.val)]
    return float(torch.cat(parts).double().mean())


def _spread(actor: Actor, data: Demonstrations, least: float) -> None:
    """Set the standard deviation of each number to its error on held-out episodes."""
    network = actor.network
    with torch.no_grad():
        errors = []
        for part in _pieces(data.val):
            seen = torch.as_tensor(data.observed(actor.spec, part), device=network.device)
            distribution: Any = network.get_distribution(seen).distribution
            errors.append(distribution.mean - torch.as_tensor(data.actions[part], device=network.device))
        error = torch.cat(errors).square().mean(0).sqrt()
        network.log_std.copy_(torch.maximum(error, least * _half(actor)).log())


def _pieces(index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [index[start : start + _AT_ONCE] for start in range(0, len(index), _AT_ONCE)]


def clone_sentence(summary: Mapping[str, Any]) -> str:
    """Return the result of `clone` in a sentence."""
    return (
        f"cloned {summary['episodes']} episodes, {summary['pairs']:,} pairs: held-out loss {summary['before']:.4f} -> "
        f"{summary['loss']:.4f} in pass {summary['best_epoch']} of {summary['epochs']}."
    )
