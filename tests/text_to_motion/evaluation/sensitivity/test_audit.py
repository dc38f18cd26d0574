"""The audit, by rewards whose answers are known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch, joints_to_features
from motionkit.motion.changes.registry import CHANGES
from motionkit.starter import CATALOGUE, generate
from motionkit.text import CAPTION_CHANGES, Prompt, kinds_of
from motionkit.text_to_motion.evaluation.sensitivity.audit import PLAIN, Columns, audit, text_alone
from motionkit.text_to_motion.evaluation.sensitivity.bench import QUICK, SOURCES, Audited, Clips, Example, trained_kinds
from motionkit.text_to_motion.evaluation.sensitivity.pages import sensitivity_page
from motionkit.text_to_motion.evaluation.sensitivity.words import (
    ASKED,
    PHYSICS,
    SHIPPED,
    document,
    main_table,
    tables,
    verdict,
    worst_actions,
)

from ....made.plain import plain

CPU = torch.device("cpu")
CLASSES = [
    "walk/slow", "run/sprint", "wave/left", "kick/high-right", "sit/down", "jump/up", "walk/turn-left", "clap/chest",
]  # fmt: skip


@plain(TextMotionDataset)
@dataclass
class Data:
    """A few starter clips, two of each class."""

    rows: list[TextClip]
    named: bool = True
    name: str = "few"
    skeleton = HUMANML
    fps: float = 20.0
    max_length: int = 196
    random_crop: bool = True

    def clips(self, split: str) -> Sequence[TextClip]:
        return self.rows


class Named(Data):
    def action(self, caption: str) -> str:
        return ACTIONS.get(caption, "")


ACTIONS = {text: entry.name for entry in CATALOGUE for text in entry.captions}


def features(name: str, frames: int, seed: int = 0) -> torch.Tensor:
    joints = torch.from_numpy(generate(name, frames=frames + 1, seed=seed).joints)
    return joints_to_features(joints, HUMANML, target=False).float()


def some_clips(each: int) -> Named:
    entries = {entry.name: entry for entry in CATALOGUE}
    return Named(
        [
            TextClip(f"{name}-{n}", features(name, 60 + 8 * n, n), (entries[name].captions[3 * n],))
            for name in CLASSES
            for n in range(each)
        ]
    )


@pytest.fixture(scope="module")
def data() -> Named:
    return some_clips(2)


@pytest.fixture(scope="module")
def many() -> Named:
    """As many clips as a verdict needs."""
    return some_clips(7)


@dataclass
class Known:
    """Scores 1 for a clip as it is with its caption, `apart` for another caption and `changed` for another motion."""

    clips: Clips
    changed: float = 0.7
    apart: float = 0.0
    text: bool = True
    name: str = "known"
    asked: int = field(default=0)

    def __post_init__(self) -> None:
        self.own = {self.clips.clips[place].key: place for place in range(len(self.clips))}

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        self.asked += len(prompts)
        total = []
        for row, length, prompt in zip(motions.features, motions.lengths.tolist(), prompts, strict=True):
            place = self.own[prompt.key]
            real = self.clips.features(place)
            same = length == len(real) and torch.allclose(row[:length], real, atol=2e-3)
            texts = (self.clips.captions[place], self.clips.captions[self.clips.others[place]])
            right = prompt.text in texts[0] or prompt.segments == tuple(text[0] for text in texts)
            pair = len(prompt.segments) > 1
            value = 1.0 if pair or same else self.changed
            total.append(value if right or not self.text else self.apart)
        return RewardScores(torch.tensor(total))


def run(clips: Clips, *rewards: object, rows: Sequence[str] = (), limit: int = 0, **more: object):
    audited = [Audited(getattr(reward, "name", "reward"), reward, **more) for reward in rewards]  # type: ignore[arg-type]
    return audit(clips, audited, device=CPU, rows=rows, limit=limit)


def test_what_is_seen_is_the_share_of_an_unrelated_caption(data: Named) -> None:
    clips = Clips(data, "val")
    found = run(clips, Known(clips, changed=0.7, apart=0.5), rows=("mean-pose", "no-path", "mirrored", "text-side"))
    rows = {row.row.name: row for row in found.rows}
    for name in ("mean-pose", "no-path", "mirrored"):
        figure = found.figure(rows[name], "known")
        assert figure.seen == pytest.approx(0.3 / 0.5)
        assert figure.ci95 == pytest.approx((0.6, 0.6))
        assert (figure.real, figure.unrelated, figure.told) == (1.0, 0.5, 1.0)
        assert figure.changed == pytest.approx(0.7)
    assert rows["mean-pose"].n == 16
    assert rows["no-path"].n == 6  # two walks, two runs, two walks with a turn
    assert rows["mirrored"].n == 6
    assert found.figure(rows["text-side"], "known").seen == 1.0  # another caption, of the clip as it is
    assert all(found.reads_text.values())
    assert not found.constant


def test_the_interval_is_a_bootstrap_of_the_ratio_by_clip() -> None:
    rng = np.random.default_rng(0)
    real, changed, away = rng.normal(0.9, 0.02, 60), rng.normal(0.7, 0.1, 60), rng.normal(0.4, 0.1, 60)
    figure = Columns(real, changed, away, real.std()).figure()
    draws = rng.integers(0, 60, (4000, 60))
    ratios = (real - changed)[draws].mean(1) / (real - away)[draws].mean(1)
    assert figure.seen == pytest.approx((real.mean() - changed.mean()) / (real.mean() - away.mean()))
    assert figure.ci95 == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=0.01)
    assert figure.fall == pytest.approx((real.mean() - changed.mean()) / real.std())
    assert figure.told == pytest.approx((real > changed).mean())
    half = np.arange(60) < 30
    part = Columns(real, changed, away, real.std()).figure(half)
    assert part.n == 30
    assert part.seen == pytest.approx((real[:30].mean() - changed[:30].mean()) / (real[:30].mean() - away[:30].mean()))


def test_scores_that_are_missing_are_left_out_in_pairs() -> None:
    real = np.array([1.0, 1.0, np.nan, 1.0])
    changed, away = np.array([0.5, np.nan, 0.0, 0.5]), np.array([0.0, 0.0, 0.0, np.nan])
    figure = Columns(real, changed, away, 1.0).figure()
    assert (figure.n, figure.seen) == (1, 0.5)
    assert Columns(real, changed, away, 1.0, reads_text=False).figure().n == 2
    none = Columns(real, np.full(4, np.nan), away, 1.0).figure()
    assert none.n == 0
    assert none.document() == {
        "n": 0, "seen": None, "real": None, "changed": None, "unrelated": None, "fall_in_std": None,
        "told_apart": None, "ci95": [None, None],
    }  # fmt: skip
    share, count = Columns(real, changed, away, 1.0).share(np.array([False, False, False, True]))
    assert (count, np.isnan(share)) == (0, True)


def test_kinds_and_actions(data: Named) -> None:
    clips = Clips(data, "val")
    found = run(clips, Known(clips), rows=("mean-pose",))
    (row,) = found.rows
    kinds = found.by_kind(row, "known")
    assert kinds["side"].n == 6
    assert kinds["tempo"].n == 4
    assert kinds[PLAIN].n == sum(not kinds_of(own[0]) for own in clips.captions)
    actions = found.by_action(row, "known")
    assert set(actions) == set(CLASSES)
    assert actions["wave/left"] == (pytest.approx(0.3), 2)


def test_the_row_that_is_seen_least_counts(many: Named) -> None:
    clips = Clips(many, "val")

    class Partly(Known):
        """Sees a statue, and no frame that is held."""

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            scores = super().score(motions, prompts).total
            still = (motions.joints[:, :20].diff(dim=1).norm(dim=-1).amax((1, 2)) < 1e-3) & (scores > 0)
            return RewardScores(torch.where(still, 0.2, scores))

    found = run(clips, Partly(clips, changed=0.95), rows=("mean-pose", "swing-0.3", "no-path", "smaller-body"))
    told = verdict(found, "known")
    assert told.levels["movement"] == pytest.approx(0.05)
    assert "movement" in told.topics("unseen")
    assert told.sees_nothing
    assert "known does not see: movement, path" in told.sentence
    some = replace(told, levels={"movement": 0.1, "tempo": 0.4, "path": 0.8})
    assert some.sentence == (
        "known does not see: movement; sees weakly (a fault costs 20% to 60% of the cost of an unrelated caption): "
        "tempo; sees: path"
    )
    plain = replace(some, reads_text=False)
    assert "(a fault costs 0.2 to 1 standard deviations of reference clips): tempo, path" in plain.sentence
    few = Clips(Named(many.rows[:4]), "val")  # four walks and runs
    asked = verdict(run(few, Known(few), rows=("mean-pose",)), "known")
    assert asked.levels == {}
    assert asked.sentence == (
        "what known sees of a motion, and what it does not, is not known: 20 clips that can be changed in one way are "
        "needed, and there are 4"
    )
    unsure = replace(verdict(found, "known"), levels={}, most=24)
    assert unsure.sentence.endswith("is not known: over 24 clips its scores are too uncertain to say")
    assert main_table(run(few, Known(few), rows=("mean-pose",)), "")["rows"][0][-1] == "30% (30..30), too few"
    sees = verdict(run(clips, Known(clips, changed=0.1), rows=("mean-pose", "no-path", "smaller-body")), "known")
    assert not sees.sees_nothing
    assert sees.topics("seen") == ["movement", "path"]
    assert sees.disturbed == {"smaller-body": pytest.approx(0.9)}
    assert sees.sentence == (
        "known misses nothing of what could be measured; it sees: movement, path; falls where nothing is wrong: "
        "smaller-body (90%)"
    )


def test_a_reward_that_reads_no_text_is_told_in_standard_deviations(many: Named) -> None:
    clips = Clips(many, "val")

    class Speed:
        name = "speed"

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            steps = motions.joints.diff(dim=1).norm(dim=-1).mean(-1)
            return RewardScores(
                torch.stack([row[: n - 1].mean() for row, n in zip(steps, motions.lengths, strict=True)])
            )

    found = run(clips, Speed(), rows=("mean-pose", "text-side", "swapped-segments"))
    assert found.reads_text == {"speed": False}
    rows = {row.row.name: row for row in found.rows}
    figure, columns = found.figure(rows["mean-pose"], "speed"), rows["mean-pose"].columns["speed"]
    assert np.isnan(figure.seen)
    assert figure.fall == pytest.approx((columns.real.mean() - columns.changed.mean()) / columns.real.std())
    assert figure.fall > 0.1
    cells = {row[1]: row[-1] for row in main_table(found, "")["rows"]}
    assert cells["text-side"] == "reads no text"
    assert cells["mean-pose"].endswith(" std")
    told = verdict(found, "speed")
    assert "%" not in told.sentence
    assert not {"order of segments", "order of events"} & told.levels.keys()
    assert "speed (reads no text)" in told.sentence


def test_a_constant_reward_is_said_to_see_nothing(data: Named) -> None:
    clips = Clips(data, "val")

    class Same:
        name = "same"

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(torch.full((len(prompts),), 0.5))

    found = run(clips, Same(), rows=QUICK)
    told = verdict(found, "same")
    assert told.constant
    assert told.sees_nothing
    assert "returns the same for every clip" in told.sentence
    assert main_table(found, "")["rows"][0][-1] == "0"
    json.dumps(document(found), allow_nan=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_without_a_finite_score_is_not_called_constant(data: Named, value: float) -> None:
    clips = Clips(data, "val")

    class Lost:
        name = "lost"

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(torch.full((len(prompts),), value))

    found = run(clips, Lost(), Known(clips), rows=("mean-pose", "text-side"))
    told = verdict(found, "lost")
    assert (told.dead, told.constant, told.sees_nothing) == (True, False, True)
    assert told.sentence == "lost gives no clip a finite score: nothing can be said of what it sees"
    assert main_table(found, "")["rows"][0][3] == "no score"
    assert verdict(found, "lost + known").dead
    assert not verdict(found, "known").dead
    assert "lost gave no finite score" in " ".join(found.notes)
    json.dumps(document(found), allow_nan=False)


def test_a_side_that_cannot_be_read_is_not_called_none(data: Named) -> None:
    texts = ("eine Person winkt mit der linken Hand", "一个人挥左手", "一个人坐下", "a person sits down")
    rows = [TextClip(row.key, row.features, (texts[n % 4],)) for n, row in enumerate(data.rows)]
    clips = Clips(Data(rows), "val")
    found = run(clips, Known(clips), rows=("mirrored", "mirrored-unsided"))
    captions = {row.row.name: {one.caption for one in row.examples} for row in found.rows}
    assert captions == {"mirrored": {texts[1]}, "mirrored-unsided": {texts[2], texts[3]}}
    (row,) = run(clips, Known(clips), rows=("mean-pose",)).rows
    kinds = run(clips, Known(clips), rows=("mean-pose",)).by_kind(row, "known")
    assert {kind: figure.n for kind, figure in kinds.items()} == {"side": 4, PLAIN: 4}, "one in English"


def test_a_reward_that_does_not_know_captions_is_told(many: Named) -> None:
    clips = Clips(many, "val")
    found = run(clips, Known(clips, apart=1.5), rows=("mean-pose",))
    told = verdict(found, "known")
    assert "no lower than a clip's own" in told.sentence
    assert told.sees_nothing
    assert not told.levels
    (row,) = main_table(found, "")["rows"]
    assert row[1] == "mean-pose"
    assert row[3] == "n/a"
    assert len(tables(found, "")) == 1


def test_a_gap_within_the_error_gives_no_share(data: Named) -> None:
    clips = Clips(data, "val")

    class Random(Known):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(total=torch.rand(len(prompts), generator=draw))

    draw = torch.Generator().manual_seed(1)
    found = run(clips, Random(clips), rows=("mean-pose", "no-path"))
    assert any(np.isfinite(found.figure(row, "known").seen) for row in found.rows), "the mean gap is above 0"
    cells = [row[3] for row in main_table(found, "")["rows"]]
    assert all("%" not in cell for cell in cells), cells


def test_several_rewards_are_audited_alone_and_as_their_sum(data: Named) -> None:
    clips = Clips(data, "val")
    first, second = Known(clips, changed=0.0), Known(clips, changed=0.8, name="other")
    audited = [
        Audited("first", first),
        Audited("second", second, weight=0.5),
        Audited("judge", Known(clips), summed=False, kinds=frozenset({"mean-pose"})),
    ]
    found = audit(clips, audited, device=CPU, rows=("mean-pose",))
    assert found.names == ("first", "second", "judge", "first + 0.5 second")
    (row,) = found.rows
    figures = {name: found.figure(row, name) for name in found.names}
    assert figures["first"].seen == 1.0
    assert figures["second"].seen == pytest.approx(0.2)
    both = figures["first + 0.5 second"]
    assert (both.real, both.unrelated) == (1.5, 0.0)
    assert both.seen == pytest.approx((1.5 - 0.4) / 1.5)
    cells = main_table(found, "")["rows"][0]
    assert cells[5] == "30% (30..30), too few *"
    assert found.kinds["judge"] == {"mean-pose"}
    assert document(found)["rows"][0]["scores"]["judge"]["trained_against"] is True


def test_a_page_names_each_change_first_and_keeps_the_names_of_rewards(data: Named) -> None:
    clips = Clips(data, "val")
    found = run(clips, Known(clips), rows=("mean-pose",))
    how = {"clips": 16, "split": "val", "dataset": "named", "most_clips_a_change": 0, "cpu_seconds": 1.0}
    page = sensitivity_page(
        {**how, "notes": ["known cannot read a caption", "no judge"]}, found, clips, "mocap (layout humanml)"
    )
    assert '<td>mean-pose</td><td data-label="kind">stillness</td>' in page
    assert ">known cannot read a caption<" in page
    assert ">No judge<" in page
    times = [float(time) for time in re.findall(r'<motionkit-player time="([\d.]+)">', page)]
    assert len(times) == page.count("<motionkit-player ") > 0
    assert min(times) > 0.5, "players begin in mid-action"
    assert "told alone" not in page, "no change has that figure here"


def test_texts_that_a_reward_cannot_read_are_left_out_and_said(data: Named) -> None:
    clips = Clips(data, "val")

    class Strict(Known):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            if any("wav" in prompt.text for prompt in prompts):
                raise MotionkitError("the word 'wave' is not known.")
            return super().score(motions, prompts)

    found = run(clips, Strict(clips), rows=("mean-pose",))
    figure = found.figure(found.rows[0], "known")
    assert figure.n == sum("wav" not in clips.captions[n][0] + clips.unrelated(n) for n in range(16))
    assert figure.seen == pytest.approx(0.3)
    assert any("cannot read" in note and "the word 'wave'" in note for note in found.notes)

    class Stored(Known):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            for text in (prompt.text for prompt in prompts if "wav" in prompt.text):
                raise MotionkitError(f"{text!r} is not stored.")
            return super().score(motions, prompts)

    (note,) = (note for note in run(clips, Stored(clips), rows=("mean-pose",)).notes if "cannot read" in note)
    assert note.count("wav") == 1, "the caption is said once"

    class Broken:
        name = "broken"

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            raise MotionkitError("no weights.")

    with pytest.raises(MotionkitError, match="no weights"):
        run(clips, Broken(), rows=("mean-pose",))


def test_every_row_has_clips_or_says_why(data: Named) -> None:
    clips = Clips(data, "val")
    reward = Known(clips)
    found = run(clips, reward, limit=8)
    assert {row.row.name for row in found.rows} | set(found.missing) == set(SOURCES)
    assert set(CHANGES) | set(CAPTION_CHANGES) < set(SOURCES)
    assert all(0 < row.n <= 8 for row in found.rows)
    assert {test for tests in {**ASKED, **PHYSICS}.values() for test in tests} <= set(SOURCES)
    assert set(QUICK) <= set(SOURCES)
    assert all("no clip fits" in why for why in found.missing.values())
    other = next(row for row in found.rows if row.row.name == "other-wording")
    for example in other.examples:
        assert example.asked.text != example.own.text
        assert ACTIONS[example.asked.text] == ACTIONS[example.own.text]
    pairs = next(row for row in found.rows if row.row.name == "swapped-segments")
    for example in pairs.examples:
        assert sum(example.own.frames) == len(example.real) == len(example.changed)
    names = [table["title"] for table in tables(found, "all")]
    assert names[0] == "all"
    assert len(names) == 3
    assert len(worst_actions(found, "known")) > 3
    json.dumps(document(found), allow_nan=False)


def test_clips_are_scored_once_however_many_rows_ask(data: Named) -> None:
    clips = Clips(data, "val")
    reward = Known(clips)
    run(clips, reward, rows=("mean-pose", "held-frame", "above-floor"))
    assert reward.asked == 16 * (3 + 2)  # each change, and the clips with their own and with unrelated captions


def test_unrelated_captions_are_of_another_action(data: Named) -> None:
    clips = Clips(data, "val")
    for place, other in enumerate(clips.others):
        assert clips.actions[place].partition("/")[0] != clips.actions[other].partition("/")[0]
    plain = Clips(Data(data.rows), "val")
    assert not any(plain.actions)
    for place, other in enumerate(plain.others):
        assert plain.captions[place] != plain.captions[other]
    assert sorted(clips.spread()) == list(range(16))
    assert len({place // 4 for place in list(clips.spread())[:4]}) >= 3  # the beginning is spread over all


def test_data_without_captions_are_refused(data: Named) -> None:
    def clips(captions: Callable[[int], tuple[str, ...]]) -> Data:
        return Data([TextClip(row.key, row.features, captions(n)) for n, row in enumerate(data.rows)])

    for given, said in (
        (clips(lambda n: ("",)), "no clip of the val split of few has a caption"),
        (clips(lambda n: ("a person walks.", f"a person does {n}.")), "have the same caption: 'a person walks"),
        (clips(lambda n: (f"does {n}.",) if n == 3 else ("",)), "of few has one clip with a caption: 'does 3"),
        (Data([]), "has no clips"),
    ):
        with pytest.raises(MotionkitError, match=said):
            Clips(given, "val")
    some = Clips(clips(lambda n: ("", f"a person does {n}.") if n % 2 else ("",)), "val")
    assert len(some) == 8
    found = run(some, Known(some), rows=("mean-pose",))
    assert "8 clips without a caption, or of one frame, are left out" in found.notes


def test_captions_of_another_language(data: Named) -> None:
    german = Data(
        [TextClip(row.key, row.features, (f"eine Person macht {n} langsam.",)) for n, row in enumerate(data.rows)]
    )
    clips, english = Clips(german, "val"), ("text-tempo", "text-order", "text-count", "text-direction", "tempo-2")
    found = run(clips, Known(clips), rows=("mean-pose", *english))
    assert set(found.missing) == set(english)
    assert found.missing["text-tempo"] == "captions are not English"
    assert any(note.startswith("no caption is English") for note in found.notes)
    assert any(row.row.name == "mean-pose" for row in found.rows)


def test_what_a_model_was_trained_against(tmp_path: Path) -> None:
    def written(folder: Path, negatives: object) -> str:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"training": {"train": {"negatives": negatives}}}))
        return str(folder)

    assert trained_kinds(written(tmp_path / "a", "mean-pose=2,text-side")) == {"mean-pose", "text-side"}
    assert trained_kinds(written(tmp_path / "b", {"reversed": 1.0})) == {"reversed"}
    assert trained_kinds(written(tmp_path / "c", "none")) == frozenset()
    written(tmp_path / "run" / "tmr", ["mirrored"])
    assert trained_kinds(str(tmp_path / "run")) == {"mirrored"}
    assert trained_kinds("") == trained_kinds(str(tmp_path / "absent")) == frozenset()
    (tmp_path / "a" / "config.json").write_text("{")
    assert trained_kinds(str(tmp_path / "a")) == frozenset()


def test_a_classifier_of_one_half_tells_what_gives_itself_away() -> None:
    entries = [entry for entry in CATALOGUE if entry.name in (*CLASSES, "walk/normal", "squat/deep", "throw/over-left")]
    rows = [
        TextClip(f"{entry.name}-{n}", features(entry.name, 60, n), (entry.captions[n % len(entry.captions)],))
        for entry in entries
        for n in range(3)
    ]
    clips = Clips(Named(rows), "val")
    names = ("mean-pose", "turned", "mirrored", "text-side", "shuffled-frames", "later-start")
    found = audit(clips, [Audited("known", Known(clips))], device=CPU, rows=names, classify=True)
    alone = {row.row.name: row.alone for row in found.rows}
    assert alone["mean-pose"] > 0.95
    assert alone["shuffled-frames"] > 0.95
    assert alone["turned"] == pytest.approx(0.5, abs=0.1)  # the same clips
    assert alone["later-start"] < 0.7
    assert np.isnan(alone["mirrored"])  # too few name a side
    columns = main_table(found, "")["columns"]
    assert columns == ["", "change", "clips", "known", "told alone"]
    assert document(found)["rows"][0]["told_alone"] == alone["mean-pose"]


def test_a_word_that_only_changed_captions_have_gives_them_away() -> None:
    def example(own: str, asked: str) -> Example:
        still = torch.zeros(4, 263)
        one, other = Prompt((own,), (4,)), Prompt((asked,), (4,))
        return Example(0, own, still, still, one, other, other)

    told = [example(f"a person walks {n}", f"a person strolls {n}") for n in range(30)]
    assert text_alone(told) == 1.0
    sides = [example("left hand" if n % 2 else "right hand", "right hand" if n % 2 else "left hand") for n in range(30)]
    assert text_alone(sides) <= 0.6
    assert np.isnan(text_alone(told[:10]))


def test_what_captions_that_are_hardly_told_apart_leave_open() -> None:
    rng = np.random.default_rng(0)
    real, changed = rng.normal(0.5, 0.1, 40), rng.normal(0.45, 0.1, 40)
    apart, alike = real - rng.normal(0.3, 0.1, 40), real - rng.normal(0.01, 0.1, 40)
    assert Columns(real, changed, apart, 0.1).tells_apart()
    vague = Columns(real, changed, alike, 0.1)
    assert not vague.tells_apart()
    low, high = vague.figure().ci95
    assert not high - low < 1.0


def test_what_the_shipped_rewards_do_not_see_is_what_their_audit_found(root: Path) -> None:
    """The figures that a run takes from docs/rewards.md are those of its tables, the row that is seen least."""
    shown: dict[str, dict[str, int]] = {}
    heads: list[str] = []
    for line in (root / "docs" / "rewards.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if cells[:2] == ["change", "clips"]:
            heads = cells
        elif heads and cells[0] in SOURCES and len(cells) == len(heads):
            assert int(cells[1]) >= 20
            for name, cell in zip(heads[2:], cells[2:], strict=True):
                if cell.endswith("%"):
                    shown.setdefault(name, {})[cells[0]] = int(cell.rstrip(" %"))
    for name, levels in SHIPPED.items():
        for topic, level in levels.items():
            assert round(100 * level) == min(shown[name][row] for row in ASKED[topic]), (name, topic)
        assert round(100 * levels["counts"]) < 20


def test_a_run_with_the_starters_rewards_says_that_they_do_not_see_counts(many: Named) -> None:
    clips = Clips(many, "val")
    found = run(clips, Known(clips, changed=0.1, name="tmr-dense"), rows=("mean-pose", "no-path"))
    told = verdict(found, "tmr-dense", SHIPPED["tmr-dense"])
    assert told.sentence == (
        "tmr-dense does not see: order of events, how often something is done; sees: movement, tempo, path"
    )
    assert document(found, SHIPPED)["rewards"]["tmr-dense"]["does_not_see"] == ["order of events", "counts"]
    own = verdict(found, "tmr-dense")
    assert "often" not in own.sentence
