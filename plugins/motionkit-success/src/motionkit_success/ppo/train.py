"""`motionkit ppo`: the trainer.

`SuccessAlarm` fires when predicted and true success part, `write_films` keeps episodes to look at, and `verdict` says
in a sentence what was learned.
"""

from __future__ import annotations

import io
import json
import logging
import shlex
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import reads_of
from motionkit.rl import stable_hash
from motionkit.runs import Run, find_model, fingerprint_tensors, write_bytes_atomic
from motionkit.tracking import TOO_FEW, Report
from motionkit.training.base import REWARD, Figure, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Best
from motionkit.training.steps import Kept, Parts, State, restore, run_steps
from motionkit_success.actor import ARTIFACT, DOCUMENT, Actor, is_actor, load_actor, require_same_state, save_actor
from motionkit_success.actor_settings import ActorSettings, spec_of
from motionkit_success.environments.observed import observation_notes, observation_of
from motionkit_success.environments.open import open_environment
from motionkit_success.environments.tasks import as_recorded
from motionkit_success.episodes import ARTIFACT as EPISODES
from motionkit_success.episodes import is_episodes, task_of
from motionkit_success.ppo.backend import Sb3Ppo
from motionkit_success.ppo.clone import Demonstrations, clone, clone_sentence, open_demonstrations
from motionkit_success.ppo.mining import Miner
from motionkit_success.ppo.scored_env import ScoredEnv, Scorer, Term, refuse_unreadable
from motionkit_success.ppo.settings import STEPS, CloneSettings, PpoSettings
from motionkit_success.reward_frames import SuccessReward
from motionkit_success.true_success import Episodes, change_of, rate_interval, run_episodes, start_seeds

FILMS, FILMS_BEFORE = "films", "films-before"

_FILMS = 4
_LATER = 1e-9

_FEWEST = 32
_HALF = 0.5

_LEARNED = 0.5  # least success for the verdict that the policy learned the task

_SHOWN = 192  # pixels; small pictures are enlarged
_MILLISECONDS, _LAST = 80, 800

_logger = logging.getLogger("motionkit.ppo")


class PpoTrainer:
    """Trains an actor; see `motionkit.training.base.Trainer`.

    A step is a rollout of every copy of the environment and the passes over it. The last actor is kept, and the one
    that `SuccessEvalSettings.keep` chooses on watched starts.
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
        """Open the environment, the rewards and the actor."""
        settings = self.settings
        self.device = set_up(settings, small=True)
        episodes = settings.episodes
        self.environment = open_environment(
            settings.env, episodes.num_envs, workers=episodes.workers, backend=episodes.backend
        )
        require_same_state(settings.run.resume, self.environment)
        self.terms: list[Term] = []
        self.notes = observation_notes(self.environment)
        for chosen in settings.reward:
            reads = reads_of(chosen.kind, chosen.component)
            refuse_unreadable(chosen.label, reads, self.environment)
            reward = chosen.build(dataset=None, device=self.device)
            self.terms.append(Term(reward, chosen.weight, reads))
            if isinstance(reward, SuccessReward):
                classifier, card = reward.classifier, reward.classifier.card
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
            if chosen_by(settings.init) == "":
                self.notes.append(f"{settings.init} is of an older version: its policy was chosen by true success.")
            shape, policy = self.actor.spec, settings.policy
            if policy not in (ActorSettings(kind=shape.kind, width=shape.width), ActorSettings()):
                self.notes.append(
                    f"the policy is a {shape.kind} of width {shape.width}, as {settings.init} is; that of policy.kind "
                    f"and policy.width, {policy.kind} of width {policy.width}, has no effect."
                )
        steps = settings.run.num_steps or STEPS[self.actor.spec.kind]
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})
        named = {f"reward.{choice.name}": term.reward for choice, term in zip(settings.reward, self.terms, strict=True)}
        self.inputs = inputs_of(named, {f"reward.{choice.name}": choice for choice in settings.reward})
        if self.demonstrations is not None:
            self.inputs["init"] = self.demonstrations.fingerprint
        elif settings.init is not None:
            self.inputs["init"] = fingerprint_tensors(self.actor.tensors())
        self.scorer = Scorer(
            self.terms, settings.scoring, episodes.num_envs, tuple(self.environment.cameras), self.device
        )
        self.chosen_by = "true success" if settings.heldout.keep == "oracle" else ""
        if self.chosen_by:
            self.notes.append("the policy that is kept is the one of highest true success (--keep oracle).")
        elif self.scorer.predicts and settings.heldout.every:
            self.chosen_by = "predicted success"
        self.miner: Miner | None = None
        if settings.mine.rounds:
            rewards = [term.reward for term in self.terms]
            self.miner = Miner(rewards, settings.mine, total=steps, seed=settings.seed, device=self.device)
            self.inputs["mine"] = self.miner.classifier.card.dataset
        self.env = ScoredEnv(
            self.environment, self.actor.spec, self.scorer, seed=settings.seed,
            watch=self.miner.watch if self.miner is not None else None,
        )  # fmt: skip
        self.learner = Sb3Ppo(self.actor, self.env, settings)

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
        """Train; see `motionkit.training.base.Trainer.train`."""
        with closing(self.environment), closing(self.miner) if self.miner is not None else nullcontext():
            return self._train(run)

    def _train(self, run: Run) -> Mapping[str, object]:
        settings = self.settings
        for note in self.notes:
            _logger.info("%s", note)
        if shown := observation_of(self.environment):
            run.annotate(observation=shown)
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
            predicted = {} if first.predicted is None else {"predicted": first.predicted.tolist()}
            start.values = {"success": first.success.tolist(), "sampled": self._sampled(), **predicted, **cloned}
            write_films(run.artifact(FILMS_BEFORE), first)
        save_actor(run.artifact(ARTIFACT), self.actor, tensors=False)

        last = run.start_step

        def step_fn(step: int) -> Mapping[str, float]:
            nonlocal last
            last = step
            # After cloning the critic is untrained: it learns first, and the actor stays.
            alone = self.demonstrations is not None and step <= settings.clone.critic
            metrics = {**self.learner.update(critic_alone=alone), **self.scorer.take_means()}
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
                # The classifier has changed: rates under the old one are not a sign of reward hacking, and the policy
                # is not chosen by them.
                alarm.forget()
                if self.chosen_by == "predicted success":
                    best.load_state(State())
            interval = settings.heldout.every
            if interval and (step % interval == 0 or step == settings.run.num_steps):
                watched = self._held_out("watch", settings.heldout.watched)
                rates = {"true success": float(watched.success.mean())}
                metrics["success/watched"] = rates["true success"]
                if watched.predicted is not None:
                    rates["predicted success"] = float(watched.predicted.mean())
                    metrics["success/watched_predicted"] = rates["predicted success"]
                if self.chosen_by:
                    # Of equal rates the later one, which was trained longer.
                    best.offer(rates[self.chosen_by] + _LATER * step, step, self.actor.tensors())
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
        # A run that ends early may not have watched anything yet.
        kept = {
            "step": best.step or last, "chosen_by": self.chosen_by if best.step else LAST,
            "success": round(float(after.success.mean()), 4),
        }  # fmt: skip
        save_actor(run.artifact(ARTIFACT), self.actor, extra=kept)
        write_films(run.artifact(FILMS), after)
        return {**self._finish(start.values, after, alarm, kept), **mined}

    def _clone(self) -> dict[str, Any]:
        """Clone the episodes of ``--init``; returns a summary for the checkpoint."""
        if self.demonstrations is None:
            return {}
        summary = clone(self.actor, self.demonstrations, self.settings.clone, seed=self.settings.seed)
        _logger.info("%s", clone_sentence(summary))
        return {"clone": summary}

    def _sampled(self) -> list[bool]:
        """Return the success of held-out episodes in which actions are drawn; torch's generator stays as it is."""
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(stable_hash(f"actions/{self.settings.seed}") % 2**62)
            count = self.settings.heldout.episodes
            flags: list[bool] = self._held_out("eval", count, drawn=True).success.tolist()
        return flags

    def _held_out(self, purpose: str, episodes: int, *, films: int = 0, drawn: bool = False) -> Episodes:
        """Run episodes in another environment, so that those of training go on; actions are drawn or deterministic."""
        settings = self.settings
        # At most as many copies as episodes.
        other = open_environment(settings.env, min(settings.episodes.num_envs, episodes))
        scorer = Scorer(self.terms, settings.scoring, other.num_envs, tuple(other.cameras), self.device)
        try:
            return run_episodes(
                other,
                lambda states, frames: self.actor.act(self.actor.observe(states, frames), deterministic=not drawn),
                start_seeds(purpose, settings.seed, 0, episodes),
                frames=self.actor.spec.kind == "pixels",
                predict=scorer.predict if scorer.predicts and not drawn else None,
                films=films if other.cameras else 0,
            )
        finally:
            other.close()

    def _finish(
        self, before: Mapping[str, Any], after: Episodes, alarm: SuccessAlarm, kept: Mapping[str, Any]
    ) -> dict[str, object]:
        success = change_of(np.array(before["success"], np.bool_), after.success, self.settings.seed)
        measured: dict[str, object] = {"success": success}
        heldout = {"success/true": success}
        sampled: np.ndarray[Any, np.dtype[np.bool_]] | None = None
        if "sampled" in before:  # runs that were begun by an older version have none
            sampled = np.array(self._sampled(), np.bool_)
            heldout["success/sampled"] = change_of(np.array(before["sampled"], np.bool_), sampled, self.settings.seed)
            measured["sampled_success"] = heldout["success/sampled"]
        if after.predicted is not None:
            predicted = change_of(np.array(before["predicted"], np.bool_), after.predicted, self.settings.seed)
            measured["predicted_success"] = heldout["success/predicted"] = predicted
        sentence = verdict(success, alarm)
        if sampled is not None:
            sentence += drawn_better(change_of(after.success, sampled, self.settings.seed))
        before_it = " Before is the policy that was cloned." if "clone" in before else ""
        if "clone" in before:
            measured["clone"] = before["clone"]
        _logger.info("%s", sentence)
        count, chosen = len(after.success), kept_policy(kept)
        return {
            **measured,
            "heldout": heldout,
            "measured_on": f"{count:,} deterministic episodes from starts that training does not use, the same before "
            f"and after. The interval is a 95 % bootstrap over episodes. After is the policy {chosen}.{before_it}",
            "metrics": {"success/true": success["after"]},
            "alarm": alarm.document(),
            "table": [
                Report(heldout).table(f"Share of {count:,} held-out episodes that succeed; policy {chosen}"),
                *([self.miner.table()] if self.miner is not None and self.miner.rounds else []),
            ],
            "verdict": sentence,
            "best_step": kept["step"],
            "chosen_by": kept["chosen_by"],
        }


def _parted(alarm: SuccessAlarm) -> str:
    true, predicted = alarm.at
    return (
        f"alarm: true success is {true:.0%} and predicted success {predicted:.0%}: {alarm.why} Train the classifier "
        "on frames of this policy too: --mine 3 does, and so do reward-collect --policy RUN and reward-train."
    )


LAST = "last"  # how a policy was chosen that was not


def chosen_by(place: Path) -> str | None:
    """Return how `ppo` chose the actor at a place; empty if an older version did, None if it is none of ppo's."""
    model = find_model(place.expanduser(), ARTIFACT, DOCUMENT)
    document = {} if model is None else read_json(model.document, dict)
    return str(document.get("chosen_by", "")) if "step" in document else None


def kept_policy(kept: Mapping[str, Any]) -> str:
    """Return which policy was kept, in words that follow "policy"."""
    step, by = kept["step"], kept["chosen_by"]
    if by == LAST:
        return f"after the last update, {step}"
    oracle = ", an oracle: a task without the environment's word has no such choice" if by == "true success" else ""
    return f"of update {step}, chosen by {by} on other starts{oracle}"


def drawn_better(change: Mapping[str, Any]) -> str:
    """Return a sentence if episodes with drawn actions succeed more often than those of the most probable ones."""
    if change["ci95"][0] <= 0:
        return ""
    return (
        f" With actions drawn, as in training, it succeeds more often: in {change['after']:.0%}, not "
        f"{change['before']:.0%}."
    )


def verdict(success: Mapping[str, Any], alarm: SuccessAlarm) -> str:
    """Return the run's result in a sentence."""
    (row,) = Report({"success/true": success}).changes
    before, after = row.before, row.after
    if row.verdict == TOO_FEW:
        sentence = f"true success went from {before:.0%} to {after:.0%} in {row.n} episodes: too few to say more."
    elif row.verdict == "better":
        head = "the policy learned the task: " if after >= _LEARNED else ""
        sentence = f"{head}true success rose from {before:.0%} to {after:.0%}."
    elif row.verdict == "worse":
        sentence = f"the policy got worse: true success fell from {before:.0%} to {after:.0%}."
    else:
        sentence = f"true success went from {before:.0%} to {after:.0%}, which is no more than chance."
    if alarm.fired_at:
        true, predicted = alarm.at
        sentence += f" The alarm fired in step {alarm.fired_at}: {true:.0%} true, {predicted:.0%} predicted success."
    return sentence


class SuccessAlarm:
    """Compares true and predicted success of the newest episodes.

    It fires if the reward predicts more success than there is (reward hacking), or misses much of the true success. If
    success is rare, neither makes a gap; then it fires if, with 95 % confidence, recall or precision of the predicted
    success is below a half.
    """

    def __init__(self, gap: float, window: int) -> None:
        self._gap, self._newest = gap, deque[tuple[bool, bool]](maxlen=window)
        self.fired_at = 0  # step in which it fired first; 0 before
        self.at = (0.0, 0.0)  # true and predicted success then
        self.why = ""  # the reason, in words

    def add(self, episodes: Iterable[tuple[bool, bool]]) -> None:
        """Count finished episodes, ``(true, predicted)`` each."""
        self._newest.extend(episodes)

    def forget(self) -> None:
        """Drop all episodes, as the reward has changed."""
        self._newest.clear()

    @property
    def rates(self) -> tuple[float, float]:
        """True and predicted success of the newest episodes."""
        count = max(1, len(self._newest))
        return sum(true for true, _ in self._newest) / count, sum(seen for _, seen in self._newest) / count

    def wrong(self) -> str:
        """Return the fault of the newest episodes, a sentence; empty if there is none."""
        if len(self._newest) < _FEWEST:
            return ""
        true, predicted = self.rates
        if predicted - true > self._gap:
            return "the policy learns what pleases the reward, not the task."
        if true - predicted > self._gap:
            return "the reward misses much of it."
        both = sum(succeeded and seen for succeeded, seen in self._newest)
        if _below_half(both, sum(succeeded for succeeded, _ in self._newest)):
            return "the reward sees fewer than half of the episodes that succeed."
        if _below_half(both, sum(seen for _, seen in self._newest)):
            return "fewer than half of the episodes that the reward takes for successes are some."
        return ""

    def check(self, step: int) -> bool:
        """Return whether it fires; the first time is recorded."""
        why = self.wrong()
        if why and not self.fired_at:
            self.fired_at, self.at, self.why = step, self.rates, why
        return bool(why)

    def document(self) -> dict[str, object]:
        """Return whether and when it fired, JSON-able."""
        true, predicted = self.at
        return {
            "fired": bool(self.fired_at), "step": self.fired_at, "true": true, "predicted": predicted, "why": self.why
        }  # fmt: skip

    def state(self) -> State:
        """Return the newest episodes and the first alarm."""
        newest = [list(pair) for pair in self._newest]
        return State(values={"newest": newest, "fired": self.fired_at, "at": self.at, "why": self.why})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self._newest.clear()
        self._newest.extend((bool(true), bool(seen)) for true, seen in state.values["newest"])
        self.fired_at = int(state.values["fired"])
        true, predicted = state.values["at"]
        self.at, self.why = (float(true), float(predicted)), str(state.values["why"])


def _below_half(hits: int, count: int) -> bool:
    """Return whether the 95 % interval of a rate is below a half."""
    return count > 0 and rate_interval(hits, count)[1] < _HALF


def write_films(folder: Path, episodes: Episodes) -> None:
    """Write the films of episodes, and ``films.json`` with their success."""
    if not episodes.films:
        return
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for number, film in enumerate(episodes.films):
        name = f"{number}.webp"
        factor = max(1, _SHOWN // max(film.shape[1:3]))
        frames = [Image.fromarray(frame.repeat(factor, 0).repeat(factor, 1)) for frame in film]
        data = io.BytesIO()
        durations = [_MILLISECONDS] * (len(frames) - 1) + [_LAST]
        # Method 2 takes a third of the time of the default, and files are a twentieth larger.
        options = {"duration": durations, "loop": 0, "quality": 80, "method": 2}
        frames[0].save(data, "WEBP", save_all=True, append_images=frames[1:], **options)
        write_bytes_atomic(folder / name, data.getvalue())
        predicted = None if episodes.predicted is None else bool(np.asarray(episodes.predicted)[number])
        records.append({"file": name, "success": bool(episodes.success[number]), "predicted": predicted})
    write_bytes_atomic(folder / "films.json", (json.dumps(records, indent=2) + "\n").encode())


def compare_environments(
    trained: Mapping[str, Any],  # ``spec`` of the environment of the classifier's frames; empty if it is not known
    present: Mapping[str, Any],  # that of this run
    place: str,  # where the classifier is from
) -> str:
    """Return a note for the user if a classifier's frames are of another environment; else an empty text."""
    theirs, here = task_of(trained), task_of(present)
    if theirs and theirs != here:
        words = ["--env", str(trained["name"]), *(("--env.id", str(trained["id"])) if trained.get("id") else ())]
        raise MotionkitError(
            f"the classifier of {place} was trained on frames of {theirs}, and the environment of this run is {here}.",
            why="a success of one task is not a success of another, even where cameras have the same names and sizes.",
            fix=f"{shlex.join(words)}, or a classifier that was trained on frames of {here}.",
        )
    if not theirs:
        return f"it is not known what environment the classifier of {place} was trained on: this run's is {here}."
    trained, present = as_recorded(trained), as_recorded(present)
    odd = [
        f"{key} {value}, not {present[key]}"
        for key, value in trained.items()
        if key in present and value != present[key]
    ]
    return f"the classifier's frames were made with other options of {here}: {'; '.join(odd)}." if odd else ""
