"""`motionkit ppo`: the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.episodes import ARTIFACT as EPISODES
from motionkit.datasets.episodes import is_episodes
from motionkit.environments._open import open_environment
from motionkit.environments.base import Floats, Frames
from motionkit.errors import MotionkitError
from motionkit.evaluation.success._episodes import Episodes, run_episodes, start_seeds
from motionkit.evaluation.success._figures import change_of
from motionkit.plugins import reads_of
from motionkit.policies.actor._actor import Actor
from motionkit.policies.actor._settings import ActorSettings, spec_of
from motionkit.policies.actor._store import ARTIFACT, is_actor, load_actor, save_actor
from motionkit.runs import Run, fingerprint_tensors
from motionkit.tracking import result_table, results
from motionkit.trainers._best import Best
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Kept, Parts, restore
from motionkit.trainers.base import REWARD, Figure, inputs_of
from motionkit.trainers.ppo._alarm import SuccessAlarm
from motionkit.trainers.ppo._backend import PolicyLearner, Sb3Ppo
from motionkit.trainers.ppo._clone import Demonstrations, clone, open_demonstrations, said_of
from motionkit.trainers.ppo._films import write_films
from motionkit.trainers.ppo._mining import Miner
from motionkit.trainers.ppo._scorer import Scorer, Term, refuse_unreadable
from motionkit.trainers.ppo._settings import STEPS, CloneSettings, PpoSettings
from motionkit.trainers.ppo._task import compare_environments
from motionkit.trainers.ppo._vec_env import ScoredEnv
from motionkit.trainers.ppo._verdict import verdict

_logger = logging.getLogger("motionkit.ppo")
_FILMS = 4
_LATER = 1e-9
FILMS, FILMS_BEFORE = "films", "films-before"


class PpoTrainer:
    """Trains an actor; see `motionkit.trainers.base.Trainer`.

    A step is a rollout of every copy of the environment and the passes over it. The actor that was best on watched
    starts, by true success where the environment tells it, is kept beside the last one.

    Args:
        settings: All settings.
    """

    unshared: ClassVar[str] = (
        "stable-baselines3 collects and updates in one process, and --workers spreads its environments over cores"
    )
    shape_keys: ClassVar[tuple[str, ...]] = (
        "env", "reward", "scoring", "policy", "init", "clone", "episodes.num_envs", "episodes.steps", "objective",
        "optim", "augment", "alarm", "heldout", "mine", "seed",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = (Figure("success", ("success/true",), instead_of=("reward",)), REWARD)

    def __init__(self, settings: PpoSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open the environment, the rewards and the actor.

        Raises:
            MotionkitError: An input is missing, or the parts do not fit each other.
        """
        settings = self.settings
        self.device = set_up(settings, small=True)
        episodes = settings.episodes
        self.environment = open_environment(
            settings.env, episodes.num_envs, workers=episodes.workers, backend=episodes.backend
        )
        self.terms: list[Term] = []
        self.notes: list[str] = []
        for chosen in settings.reward:
            reads = reads_of(chosen.kind, chosen.component)
            refuse_unreadable([(chosen.label, reads)], self.environment)
            reward = chosen.build(dataset=None, device=self.device)
            self.terms.append(Term(reward, chosen.weight, reads))
            if classifier := getattr(reward, "classifier", None):
                card = classifier.card
                if note := compare_environments(card.environment, self.environment.spec, reward.origin):
                    self.notes.append(note)
                classifier.refuse_cameras(self.environment.cameras)
                self.notes.append(f"reward: {reward.origin}")
                self.notes += [
                    f"the classifier failed a check when it was trained: {check.name}: {check.meaning}"
                    for check in card.checks
                    if check.status == "fail"
                ]
        self.demonstrations: Demonstrations | None = None
        cloned = settings.init is not None and not is_actor(settings.init) and is_episodes(settings.init.expanduser())
        if settings.init is None or cloned:
            spec = spec_of(settings.policy.kind, settings.policy.width, self.environment)
            self.actor = Actor(spec, device=self.device)
            if settings.init is not None:
                self.demonstrations = open_demonstrations(
                    settings.init.expanduser(), spec, settings.clone, seed=settings.seed
                )
                self.notes += [f"cloned first: {settings.init}", *self.demonstrations.notes]
        else:
            self.actor = load_actor(settings.init, device=self.device)
            if settings.clone != CloneSettings():
                raise MotionkitError(
                    f"clone has no effect: {settings.init} is an actor, no episodes.",
                    fix=f"leave it out, or --init {settings.init / EPISODES}, where it has them.",
                )
            self.actor.spec.require_fit(self.environment, str(settings.init))
            own, asked = (self.actor.spec.kind, self.actor.spec.width), (settings.policy.kind, settings.policy.width)
            if asked not in (own, (ActorSettings().kind, ActorSettings().width)):
                self.notes.append(
                    f"the policy is a {own[0]} of width {own[1]}, as {settings.init} is; that of policy.kind and "
                    f"policy.width, {asked[0]} of width {asked[1]}, has no effect."
                )
        steps = settings.run.num_steps or STEPS[self.actor.spec.kind]
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})
        named = {f"reward.{one.name}": term.reward for one, term in zip(settings.reward, self.terms, strict=True)}
        self.inputs = inputs_of(named, {f"reward.{one.name}": one for one in settings.reward})
        if self.demonstrations is not None:
            self.inputs["init"] = self.demonstrations.fingerprint
        elif settings.init is not None:
            self.inputs["init"] = fingerprint_tensors(self.actor.tensors())
        self.scorer = Scorer(
            self.terms, settings.scoring, episodes.num_envs, tuple(self.environment.cameras), self.device
        )
        self.miner: Miner | None = None
        if settings.mine.rounds:
            rewards = [term.reward for term in self.terms]
            self.miner = Miner(rewards, settings.mine, total=steps, seed=settings.seed, device=self.device)
            self.inputs["mine"] = self.miner.classifier.card.dataset
        self.env = ScoredEnv(
            self.environment, self.actor.spec, self.scorer, seed=settings.seed,
            watch=self.miner.watch if self.miner is not None else None,
        )  # fmt: skip
        self.learner: PolicyLearner = Sb3Ppo(self.actor, self.env, settings)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        settings, spec = self.settings, self.actor.spec
        per_step = settings.episodes.num_envs * settings.episodes.steps
        return {
            "environment": f"{settings.env.label}, {settings.episodes.num_envs} copies",
            "actor": f"{spec.kind}, {sum(weight.numel() for weight in self.actor.network.parameters())} parameters",
            "rewards": {term.reward.name: term.weight for term in self.terms},
            **({} if (data := self.demonstrations) is None else {"cloned": f"{len(data.episodes.records)} episodes"}),
            "steps": f"{settings.run.num_steps} updates of {per_step} environment steps",
            "device": describe_device(self.device),
            "notes": list(self.notes),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        with closing(self.environment), closing(self.miner) if self.miner is not None else nullcontext():
            return self._train(run)

    def _train(self, run: Run) -> Mapping[str, object]:
        settings = self.settings
        for note in self.notes:
            _logger.info("%s", note)
        alarm = SuccessAlarm(settings.alarm.gap, settings.alarm.window)
        best, start = Best(), Kept()
        parts: Parts = {**self.learner.parts(), "alarm": alarm, "best": best, "before": start}
        if self.miner is not None:
            parts = {**parts, **self.miner.begin(run, self.environment.spec)}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
            if not self.env.resumes:
                _logger.info("the environment keeps no state: its running episodes begin anew.")
        else:
            cloned = self._clone()
            _logger.info("running %d held-out episodes before training", settings.heldout.episodes)
            first = self._held_out("eval", settings.heldout.episodes, films=_FILMS)
            start.values = {**_kept(first), **cloned}
            write_films(run.artifact(FILMS_BEFORE), first)
        save_actor(run.artifact(ARTIFACT), self.actor, tensors=False)

        def step_fn(step: int) -> Mapping[str, float]:
            metrics = {**self.learner.update(), **self.scorer.take_means()}
            finished = self.env.take_finished()
            alarm.add(finished)
            true, predicted = alarm.rates
            metrics |= {"success/true": true, "success/episodes": float(self.env.episodes)}
            if self.scorer.predicts:
                metrics |= {"success/predicted": predicted, "success/gap": predicted - true}
                fired = alarm.fired_at
                if alarm.check(step) and not fired:
                    _logger.warning("%s", _parted(alarm))
            if self.miner is not None and step in self.miner.due:
                metrics |= self.miner.round(step)
                alarm.forget()
            every = settings.heldout.every
            if every and (step % every == 0 or step == settings.run.num_steps):
                watched = float(self._held_out("watch", settings.heldout.watched).success.mean())
                metrics["success/watched"] = watched
                # Of equal rates the later one: it has seen more.
                best.offer(watched + _LATER * step, step, self.actor.tensors())
            return metrics

        stop = settings.alarm.stop
        if not run_steps(run, settings, step_fn, parts, done=lambda: stop and bool(alarm.fired_at)):
            return {}
        save_actor(run.artifact(f"{ARTIFACT}-last"), self.actor)
        if best.tensors:
            self.actor.load_tensors(best.tensors)
        mined = self.miner.finish() if self.miner is not None else {}
        _logger.info("running %d held-out episodes after training", settings.heldout.episodes)
        after = self._held_out("eval", settings.heldout.episodes, films=_FILMS)
        kept = {"step": best.step or settings.run.num_steps, "success": round(float(after.success.mean()), 4)}
        save_actor(run.artifact(ARTIFACT), self.actor, extra=kept)
        write_films(run.artifact(FILMS), after)
        return {**self._finish(start.values, after, alarm, best.step), **mined}

    def _clone(self) -> dict[str, Any]:
        """Clone the episodes of ``--init``; returns what is kept of it."""
        if self.demonstrations is None:
            return {}
        found = clone(self.actor, self.demonstrations, self.settings.clone, seed=self.settings.seed)
        _logger.info("%s", said_of(found))
        return {"clone": found}

    def _held_out(self, purpose: str, episodes: int, *, films: int = 0) -> Episodes:
        """Run deterministic episodes in an environment of their own, so that those of training go on."""
        settings = self.settings
        other = open_environment(settings.env, min(settings.episodes.num_envs, episodes))
        scorer = Scorer(self.terms, settings.scoring, other.num_envs, tuple(other.cameras), self.device)
        try:
            return run_episodes(
                other,
                partial(_act, self.actor),
                start_seeds(purpose, settings.seed, 0, episodes),
                frames=self.actor.spec.kind == "pixels",
                predict=scorer.predict if scorer.predicts and purpose == "eval" else None,
                films=films if other.cameras else 0,
            )
        finally:
            other.close()

    def _finish(self, before: Mapping[str, Any], after: Episodes, alarm: SuccessAlarm, step: int) -> dict[str, object]:
        success = change_of(np.array(before["success"], np.bool_), after.success, self.settings.seed)
        found: dict[str, object] = {"success": success}
        heldout = {"success/true": success}
        if after.predicted is not None:
            predicted = change_of(np.array(before["predicted"], np.bool_), after.predicted, self.settings.seed)
            found["predicted_success"] = heldout["success/predicted"] = predicted
        said = verdict(success, alarm)
        before_it = " Before is the policy that was cloned." if "clone" in before else ""
        if "clone" in before:
            found["clone"] = before["clone"]
        _logger.info("%s", said)
        count = len(after.success)
        return {
            **found,
            "heldout": heldout,
            "measured_on": f"{count:,} deterministic episodes from starts that training does not use, the same before "
            f"and after. The interval is a 95 % bootstrap over episodes.{before_it}",
            "metrics": {"success/true": success["after"]},
            "alarm": alarm.document(),
            "table": [
                result_table(results(heldout), f"Share of {count:,} held-out episodes that succeed"),
                *([self.miner.table()] if self.miner is not None and self.miner.rounds else []),
            ],
            "verdict": said,
            "best_step": step,
        }


def _act(actor: Actor, states: Floats, frames: Frames) -> NDArray[Any]:
    return actor.act(actor.observe(states, frames), deterministic=True)


def _kept(found: Episodes) -> dict[str, Any]:
    values = {"success": found.success.tolist()}
    return values if found.predicted is None else {**values, "predicted": found.predicted.tolist()}


def _parted(alarm: SuccessAlarm) -> str:
    true, predicted = alarm.at
    return (
        f"alarm: true success is {true:.0%} and predicted success {predicted:.0%}: {alarm.why} Train the classifier "
        "on frames of this policy too: --mine 3 does, and so do reward-collect --policy RUN and reward-train."
    )
