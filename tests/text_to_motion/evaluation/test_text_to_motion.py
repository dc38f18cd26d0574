"""Text-to-motion figures: formulas, reasons where there is none, questions, replications that go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit import load_dataset, load_policy
from motionkit.contracts.open_model import open_model
from motionkit.errors import MotionkitError
from motionkit.metrics import FrechetReference, frechet, kid
from motionkit.motion import MotionBatch, Normalizer
from motionkit.text_to_motion.data.humanml import HumanMLOptions, humanml
from motionkit.text_to_motion.evaluation.protocol.figures import Sheet, embedding_figures, moving_figures, npss_columns
from motionkit.text_to_motion.evaluation.protocol.measure import Amount, Measurement, Questions, amount_of, sampling_of
from motionkit.text_to_motion.evaluation.protocol.run import evaluate, open_all
from motionkit.text_to_motion.evaluation.protocol.tables import explain, summarise, table, verdict
from motionkit.text_to_motion.evaluator.files import doubt_of
from tests.made import starter_evaluator
from tests.made.starter_evaluator import named


@pytest.fixture(scope="module")
def dataset():
    return load_dataset("starter", clips=288, val_clips=48, test_clips=48, max_frames=64)


@pytest.fixture(scope="module")
def policy(dataset):
    return load_policy("starter")


@pytest.fixture(scope="module")
def evaluator(dataset, tmp_path_factory):
    return starter_evaluator.write(tmp_path_factory.mktemp("evaluator"), dataset)


def gaussian(count, width, seed=0, shift=0.0):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)) + shift


def test_recorded_figures(shared: Path) -> None:
    recorded = {k: torch.as_tensor(v) for k, v in np.load(shared / "fixtures" / "mdm" / "metrics.npz").items()}
    sheet = embedding_figures(recorded["text"], recorded["gen"], recorded["gt"], count=512, seed=0)
    found = [sheet.values[f"r_precision_{k}"] for k in (1, 2, 3)]
    assert found == pytest.approx(recorded["r_precision"].tolist(), abs=1e-9)
    assert sheet.values["mm_dist"] == pytest.approx(float(recorded["matching_score"]), rel=1e-5)
    assert sheet.values["fid"] == pytest.approx(float(recorded["fid"]), rel=1e-5)
    assert sheet.values["diversity"] == pytest.approx(float(recorded["diversity"]), rel=0.05)  # other pairs
    assert not sheet.missing
    assert not sheet.notes
    one = summarise([Sheet({"fid": value}) for value in recorded["rep_values"].tolist()])["fid"]
    assert one["mean"] == pytest.approx(float(recorded["rep_mean"]), rel=1e-9)
    assert one["ci95"][1] - one["mean"] == pytest.approx(float(recorded["rep_ci"]), rel=1e-9)


@pytest.mark.parametrize(
    ("count", "width", "missing", "noted"),
    [
        (31, 4, {"r_precision_1", "r_precision_2", "r_precision_3", "mm_dist", "diversity"}, False),
        (300, 4, {"diversity"}, False),
        (301, 4, set(), False),
        (40, 40, {"fid", "diversity"}, False),
        (41, 40, {"diversity"}, True),
        (320, 65, set(), True),
        (320, 64, set(), False),
    ],
)
def test_a_figure_that_cannot_be_meant_seriously_has_a_reason(count, width, missing, noted) -> None:
    sheet = embedding_figures(
        gaussian(count, width), gaussian(count, width, 1), gaussian(500, width, 2), count=500, seed=0
    )
    assert set(sheet.missing) == missing
    assert all(sheet.missing.values())
    assert ("biased, compare at equal n only" in sheet.notes.get("fid", "")) == noted
    assert ("kid" in sheet.values) == noted
    document = summarise([sheet, sheet])
    for name in missing:
        assert document[name]["mean"] is None
        assert document[name]["why"] == sheet.missing[name]
    for name in sheet.values:
        assert document[name]["ci95"] == pytest.approx([document[name]["mean"]] * 2)
    few = embedding_figures(
        gaussian(500, width), gaussian(500, width, 1), gaussian(width, width, 2), count=width, seed=0
    )
    assert "fid" in few.missing, "too few reference motions are as bad"


def test_kernel_distance_is_the_plain_sum_and_unbiased() -> None:
    x, y = gaussian(7, 3).double(), gaussian(5, 3, 1).double()

    def k(a, b):
        return (float(a @ b) / 3 + 1) ** 3

    plain = (
        sum(k(x[i], x[j]) for i in range(7) for j in range(7) if i != j) / 42
        + sum(k(y[i], y[j]) for i in range(5) for j in range(5) if i != j) / 20
        - 2 * sum(k(a, b) for a in x for b in y) / 35
    )
    assert kid(x, y) == pytest.approx(plain, rel=1e-12)
    # Halves of one set: the mean over many is 0, where Frechet's grows as sets shrink.
    many = [kid(gaussian(20, 8, 2 * s), gaussian(20, 8, 2 * s + 1)) for s in range(60)]
    assert abs(np.mean(many)) < 3 * np.std(many) / 60**0.5
    assert kid(gaussian(200, 4), gaussian(200, 4, 1, shift=1.0)) > 1


def test_a_reference_is_worked_out_once_and_gives_the_same_distance() -> None:
    real, made = gaussian(100, 6), gaussian(80, 6, 1, shift=0.3)
    reference = FrechetReference(real)
    assert reference.distance(made) == frechet(real, made)
    assert reference.distance(real) == pytest.approx(0, abs=1e-9)
    with pytest.raises(MotionkitError, match="width 6 and 5"):
        reference.distance(gaussian(80, 5))


def test_questions_go_through_the_split_again_only_when_it_is_used_up(dataset) -> None:
    questions = Questions(dataset, "val", longest=196)
    asked = questions.draw(0, 100)
    keys = [one.prompt.source_ids[0] for one in asked]
    assert len(set(keys[:48])) == len(set(keys[48:96])) == 48
    assert keys[:48] != keys[48:96]
    assert len({one.prompt.key for one in asked}) == 100, "noise follows the key"
    clips = {clip.key: clip for clip in dataset.clips("val")}
    shorter = 0
    for one in asked:
        clip = clips[one.prompt.source_ids[0]]
        assert one.prompt.length % 4 == 0
        assert one.truth is not None
        assert len(one.truth) == one.prompt.length
        assert one.prompt.segments[0] in clip.captions
        cut = len(clip.features) // 4 * 4 - one.prompt.length
        assert cut in (0, 4)
        shorter += cut == 4
    assert 15 < shorter < 55, "one in three is 4 frames shorter"
    again = Questions(dataset, "val", longest=196).draw(0, 100)
    assert [one.prompt for one in again] == [one.prompt for one in asked]
    assert [one.prompt for one in questions.draw(1, 100)] != [one.prompt for one in asked]
    assert {one.prompt.source_ids[0] for one in questions.real(3)} == set(clips)
    assert max(one.prompt.length for one in Questions(dataset, "val", longest=41).draw(0, 60)) <= 40


def test_stored_tokens_of_captions_are_used(shared: Path) -> None:
    root = shared / "fixtures" / "mdm" / "mini_humanml3d" / "dataset" / "HumanML3D"
    data = humanml.build(HumanMLOptions(root=root, broken="skip"))
    tokens = Questions(data, "train", longest=196).tokens()  # type: ignore[arg-type]
    assert tokens
    assert all("/" in word for words in tokens.values() for word in words)


@pytest.mark.parametrize(
    ("mode", "protocol", "expected"),
    [
        ("auto", "mdm", ("starter", Amount(5, 1024, 50, 10))),
        ("wo_mm", "mdm", ("wo_mm", Amount(20, 1024))),
        ("debug", "whole", ("debug", Amount(5, 432))),
        ("mm_short", "mdm", ("mm_short", Amount(5, 1024, 100, 30))),
        ("full", "mdm", ("full", Amount(20, 1024, 100, 30))),
    ],
)
def test_modes(mode, protocol, expected) -> None:
    assert amount_of(mode, protocol, starter=True, available=432) == expected


def test_statistics_of_something_else_are_found_on_real_motions(dataset) -> None:
    evaluator = starter_evaluator.make(dataset)
    clips, own = dataset.clips("val"), dataset.normalizer
    assert doubt_of(evaluator, clips, released=False, dataset=own) == ""
    assert "the dataset's own Mean and Std" in doubt_of(evaluator, clips, released=True, dataset=own)
    bias = own.std.clone()
    bias[:4] /= 25
    bias[-4:] /= 25
    evaluator.std.copy_(bias)
    assert doubt_of(evaluator, clips, released=True, dataset=own) == ""
    assert doubt_of(evaluator, clips, released=True, dataset=own, known=Normalizer(own.mean, bias)) == ""
    assert "beside the dataset" in doubt_of(evaluator, clips, released=True, dataset=own, known=own)
    evaluator.std.mul_(100)
    assert "do not fit these motions" in doubt_of(evaluator, clips, released=True, dataset=own)


def test_padding_and_batches_change_nothing(dataset, policy, evaluator) -> None:
    opened = open_all(dataset, "val", {"starter": policy}, label="starter", evaluator=named(evaluator))
    how = sampling_of(open_model("starter"), policy, starter=True)
    assert how.words == "DDIM, 5 steps of 50, guidance 2.5, masks exact"
    found = []
    for batch in (5, 64):
        measurement = opened.measurement(Amount(1, 40, 3, 4), seed=0, batch=batch)
        found.append(measurement.replicate(policy, how, 0))
    for part in ("metrics", "truth"):
        one, two = (getattr(each, part).values for each in found)
        assert one == pytest.approx(two, rel=2e-4, abs=1e-5)
    assert found[0].truth.missing["multimodality"] == "a text has one reference motion"
    assert "multimodality" in found[0].metrics.values


def test_an_evaluation_that_was_stopped_in_its_last_replication_goes_on(
    dataset, policy, evaluator, tmp_path: Path
) -> None:
    opened = open_all(dataset, "val", {"starter": policy}, label="starter", evaluator=named(evaluator))
    found = open_model("starter")
    how = sampling_of(found, policy, starter=True, steps=2, kind="ddim")
    amount, common = Amount(3, 32), {"protocol": "mdm", "mode": "debug"}

    def run(out: Path, progress=None, **more):
        return evaluate(found, policy, opened, how, amount, out, **common, progress=progress, **more)

    whole = run(tmp_path / "whole").document
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done > 2 * 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", stop)
    assert sorted(file.name for file in (tmp_path / "cut" / "replications").iterdir()) == [
        f"000{i}.json" for i in range(2)
    ]
    with pytest.raises(MotionkitError, match="another seed"):
        run(tmp_path / "cut", seed=1)
    seen: list[int] = []
    document = run(tmp_path / "cut", seen.append).document
    assert sum(seen) == 3 * 32
    assert document["metrics"] == whole["metrics"]
    assert document["ground_truth"] == whole["ground_truth"]
    assert whole["metrics"]["multimodality"]["mean"] is None
    page = (tmp_path / "cut" / "evaluation.html").read_text()
    assert "R@3" in page
    assert "What each figure means" in page
    with pytest.raises(MotionkitError, match="finished evaluation"):
        run(tmp_path / "cut")
    done = 2 * 32
    with pytest.raises(KeyboardInterrupt):  # it begins anew
        run(tmp_path / "cut", stop, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(MotionkitError, match="holds something else"):
        run(tmp_path / "other", overwrite=True)


def test_every_figure_is_defined_and_shown() -> None:
    assert len(explain()) == 19
    sheet = Sheet({"fid": 2.0, "r_precision_3": 0.5, "skate": 0.04}, {"diversity": "too few"}, {"fid": "biased"})
    real = Sheet({"fid": 0.1, "r_precision_3": 0.8, "skate": 0.01})
    metrics, truth = summarise([sheet, sheet]), summarise([real, real])
    rows = {row[0]: row[1:] for row in table("x", {"policy": metrics, "ground truth": truth})["rows"]}
    assert rows["FID ↓"] == ("2.000 ± 0.000", "0.100 ± 0.000", "biased")
    assert rows["Diversity"] == ("n/a", "", "too few")
    assert "62% of what reference motions reach" in verdict(metrics, truth)
    assert "passes" not in verdict(metrics, truth)
    assert "it passes the reference motions on R@3 and FID" in verdict(truth, metrics)
    assert verdict({}, {}) == "nothing could be measured."
    doubted = verdict(metrics, truth, "the evaluator finds the text of reference clips with R@3 0.25")
    assert doubted == (
        "nothing is read off R-precision, FID and the evaluator's other figures, as the evaluator finds the text of "
        "reference clips with R@3 0.25; skate is 0.04 m/s (reference: 0.01)."
    )
    assert "passes" not in verdict(truth, metrics, "it is another's")
    shaking = {"jerk": {"mean": 3806.0}, "movement": {"mean": 0.326}}
    assert verdict(shaking, {"jerk": {"mean": 91.7}}) == (
        "this policy makes noise: its motions have 42 times the jerk of reference clips (3,806 against 92 m/s^3): "
        "train it longer; motions move 33% as much as reference ones of the same actions; jerk is 3,806 m/s^3 "
        "(reference: 91.7)."
    )
    still = {"movement": {"mean": 0.34}, "statues": {"mean": 0.25}}
    assert verdict(still, {}) == (
        "motions move 34% as much as reference ones of the same actions, which is little (below 60%); "
        "25.0% of them are statues, which are many (above 5%)."
    )
    moves = {"movement": {"mean": 0.9}, "statues": {"mean": 0.01}}
    assert "which" not in verdict(moves, {})


def test_figures_of_moving_are_those_of_their_columns() -> None:
    nan, draw = torch.nan, torch.Generator().manual_seed(0)
    real = torch.randn(40, 3, generator=draw)
    columns = {
        "movement": torch.tensor([0.5, nan, 0.7]),
        "statues": torch.tensor([1.0, 0.0, nan]),
        "side": torch.full((3,), nan),
        "npss_moved": torch.tensor([1.0, nan, 3.0]),
        "npss_power": torch.tensor([2.0, nan, 2.0]),
    }
    sheet = moving_figures({**columns, "kinetic": real[:3]}, real)
    assert sheet.values == pytest.approx({"movement": 0.6, "statues": 0.5, "npss": 1.0})
    assert sheet.notes["movement"] == "of 2 of 3 motions"
    assert "limb's side" in sheet.missing["side"]
    assert "3 needs more than 3 motions, there are 3" in sheet.missing["kinetic_fid"]
    sheet = moving_figures({**columns, "npss_power": torch.full((3,), nan), "kinetic": real + 2 * real.std(0)}, real)
    assert sheet.values["kinetic_fid"] == pytest.approx(12.0, rel=1e-5)
    assert "no prompt has a reference motion" in sheet.missing["npss"]


def test_npss_is_nought_of_the_real_motion_itself(dataset) -> None:
    clips = [clip.features[:40] for clip in dataset.clips("val")[:3]]
    turned = torch.stack([clips[0].flip(0), clips[1], clips[2]])
    batch = MotionBatch(turned, torch.tensor([40, 40, 40]), skeleton=dataset.skeleton, fps=20.0)
    moved, power = npss_columns(batch, [clips[0], clips[1], None])
    assert float(power[:2].min()) > 0
    assert float(moved[1]) == pytest.approx(0.0, abs=1e-4)
    assert moved[2].isnan()
    assert power[2].isnan()


def test_a_doubt_withholds_what_the_evaluator_says(dataset, policy, evaluator) -> None:
    opened = open_all(dataset, "val", {"starter": policy}, label="starter", evaluator=named(evaluator))
    assert opened.repeated(opened.questions.count) == ""
    assert "each is used 3 times, each time with a new caption" in opened.repeated(3 * opened.questions.count)
    how = sampling_of(open_model("starter"), policy, starter=True, steps=2, kind="ddim")
    actions = opened.real.actions
    measurement = Measurement(
        opened.evaluator, opened.questions, actions=actions, amount=Amount(1, 32), doubt="confused"
    )
    found = measurement.replicate(policy, how, 0)
    for sheet in (found.metrics, found.truth):
        moving = {"movement", "statues", "side"} | ({"npss"} if sheet is found.metrics else set())
        assert set(sheet.values) == {"skate", "penetration", "float", "jerk"} | moving
        assert sheet.missing["fid"] == "confused"
    # Of the same clips that they are a share of, but for the cut of one in three.
    assert found.truth.values["movement"] == pytest.approx(1.0, abs=0.05)
    assert found.truth.values["statues"] == 0.0
    assert found.truth.missing["npss"] == "a reference motion is compared with itself"
    assert "66 needs more than 66 motions, there are 32" in found.metrics.missing["kinetic_fid"]
    said = verdict(summarise([found.metrics]), summarise([found.truth]))
    assert f"motions move {found.metrics.values['movement']:.0%} as much as reference ones of the same actions" in said
