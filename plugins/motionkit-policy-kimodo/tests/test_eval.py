"""What eval measures of Kimodo: its benchmark's rows, TMR-SOMA on true motions, and audits of its rewards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

from motionkit.motion import Clip, MotionBatch, features_to_joints
from motionkit.testing import check_dataset
from motionkit.text import Prompt
from motionkit_policy_kimodo import tmr
from motionkit_policy_kimodo.dataset import KimodoClips
from motionkit_policy_kimodo.metrics import KimodoMeasures
from motionkit_policy_kimodo.motions import write_kimodo
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.settings import METRICS, KimodoOptions, PromptOptions
from motionkit_policy_kimodo.skeletons import body, soma_skeleton
from motionkit_policy_kimodo.texts import TextTable
from motionkit_policy_kimodo.tmr import read_retrieval

Tensors = Callable[[str], dict[str, Tensor]]
Cli = Callable[..., Result]
TEXTS = ("A person walks.", "A person waves.", "Someone turns around.", "A man sits down.", "A robot stands still.")


class Recorded:
    """TMR-SOMA that gives the recorded vectors, by number."""

    def __init__(self, known: dict[str, Tensor]) -> None:
        self.known = known

    def texts(self, texts: Sequence[str]) -> Tensor:
        return self.known["text"][[int(text) for text in texts]]

    def file(self, path: Path) -> Tensor:
        return self.known["gt"][int(path.parent.name)]


@pytest.fixture
def expected(recorded: Path) -> dict[str, float]:
    found = json.loads((recorded / "retrieval_metrics.json").read_text())
    names = {name: name.removeprefix("TMR/").replace("_R/", "_").replace("/", "_") for name in found}
    return {ours: found[name] for name, ours in names.items() if not ours.endswith("len")}


@pytest.fixture
def cases(tensors: Tensors, tmp_path: Path) -> Path:
    """Write cases of the benchmark: pieces of a recorded clip, turned, as SOMA's 77 joints."""
    features = tensors("representation_soma.npz")["features"]
    representation = KimodoRepresentation(body("soma30"))
    for number, text in enumerate(TEXTS):
        folder = tmp_path / "cases" / str(number)
        folder.mkdir(parents=True)
        piece = representation.canonical(features[6 * number : 6 * number + 36], 0.5 * number)
        motion = representation.motion(piece, representation.positions(piece), 30.0)
        write_kimodo(folder / "gt_motion.npz", [Clip(motion)], None)  # type: ignore[arg-type]
        (folder / "meta.json").write_text(json.dumps({"text": text, "duration": 1.2}))
    return tmp_path / "cases"


def test_rows_are_the_recorded_ones(tensors: Tensors, expected: dict[str, float]) -> None:
    known = tensors("metrics.npz")
    measures = KimodoMeasures(Recorded(known))  # type: ignore[arg-type]
    feet = dict.fromkeys(("skate_height", "path_error", "effectors_error"), torch.full((64,), torch.nan))
    asked = [Prompt((str(n),), (9,), extras={"truth": f"{n}/gt_motion.npz"}) for n in range(64)]
    found = measures.figures({**feet, "latent": known["motion"]}, asked)
    for name, value in expected.items():
        figure = found[name]
        assert isinstance(figure, Tensor)
        assert float(figure.double().mean()) == pytest.approx(value, abs=0.0051 if "_R" in name else 1e-5)
    assert found["t2m_R03"].shape == (64,)  # type: ignore[union-attr]
    assert "no prompt" in str(found["path_error"])
    assert {f"heldout/{name}" for name in found} <= {metric.name for metric in METRICS}
    asked[3] = Prompt(("3",), (9,))
    found = measures.figures({**feet, "latent": known["motion"]}, asked)
    assert "gt_motion.npz" in str(found["FID_gen_gt"])
    assert not {"t2m_gt_R01", "m2m_R01"} & found.keys()
    assert "--policy.retrieval" in str(KimodoMeasures().figures(feet, asked)["t2m_R03"])


def test_feet_and_constraints_of_motions(tensors: Tensors, tmp_path: Path) -> None:
    features = tensors("representation_soma.npz")["features"][:40].repeat(2, 1, 1)
    representation = KimodoRepresentation(body("soma30"))
    motions = MotionBatch(features, torch.tensor([40, 40]), skeleton=representation, fps=30.0)
    root = motions.joints[0, 3, 0, [0, 2]] + torch.tensor([0.3, 0.4])
    path = {"type": "root2d", "frame_indices": [3], "smooth_root_2d": [root.tolist()]}
    (tmp_path / "c.json").write_text(json.dumps([path]))
    prompts = [Prompt(("a",), (40,), extras={"constraints": str(tmp_path / "c.json")}), Prompt(("b",), (40,))]
    measures = KimodoMeasures()
    parts = measures.parts(motions, prompts)
    found = measures.figures(parts, prompts)
    assert_close(found["path_error"], torch.tensor([0.5, torch.nan]), atol=1e-4, rtol=0, equal_nan=True)
    assert "no prompt" in str(found["effectors_error"])
    assert_close(found["consistency"], torch.ones(2))  # its contacts are those of the rule
    assert (parts["skate_height"] > 0).all()


def test_true_motions_are_the_recorded_ones(
    cli: Cli, tensors: Tensors, expected: dict[str, float], soma: KimodoOptions, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for number in range(64):
        folder = tmp_path / "cases" / f"{number:02d}"
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"text": str(number), "duration": 2}))
        (folder / "gt_motion.npz").write_bytes(b"")
    monkeypatch.setattr(tmr, "read_retrieval", lambda weights, table: Recorded(tensors("metrics.npz")))
    done = cli("eval", "kimodo-retrieval", str(tmp_path / "cases"), "--embeddings", str(soma.embeddings), "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["cases"] == 64
    for name, value in document["figures"].items():
        assert value == pytest.approx(expected[name.removeprefix("heldout/")], abs=0.0051 if "_R" in name else 1e-5)
    assert {"heldout/t2m_gt_R03", "heldout/FID_gt_text"} < document["figures"].keys()


def test_true_motions_of_files(cli: Cli, cases: Path, soma: KimodoOptions, recorded: Path) -> None:
    words = ("eval", "kimodo-retrieval", str(cases), "--weights", str(recorded / "tiny_tmr"))
    table = ("--embeddings", str(soma.embeddings))
    done = cli(*words, *table, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)["figures"]
    assert soma.embeddings is not None
    model = read_retrieval(str(recorded / "tiny_tmr"), TextTable(soma.embeddings))
    with np.load(cases / "2" / "gt_motion.npz") as file:
        joints = torch.from_numpy(file["posed_joints"]).float()
    assert joints.shape == (36, 77, 3)
    assert_close(model.file(cases / "2" / "gt_motion.npz"), model.motions(joints[None], torch.tensor([36]))[0])
    made = torch.stack([model.file(cases / str(number) / "gt_motion.npz") for number in range(5)])
    asked, places = model.texts(TEXTS), []
    for number, row in enumerate((asked @ made.T).tolist()):
        right = [one for one in range(5) if one == number or float(asked[number] @ asked[one]) > 0.96]
        order = sorted(range(5), key=lambda one: -row[one])
        places.append(min(map(order.index, right)))
    for most in (1, 2, 3):
        assert figures[f"heldout/t2m_gt_R0{most}"] == pytest.approx(20 * sum(place < most for place in places))
    shown = cli(*words, *table)
    assert "t2m_gt R@3" in shown.output
    assert "89.1" in shown.output


def test_true_motions_that_are_refused(cli: Cli, texts: Path, cases: Path, soma: KimodoOptions) -> None:
    done = cli("eval", "kimodo-retrieval", str(cases))
    assert done.exit_code == 2
    assert "no text vectors" in done.output
    done = cli("eval", "kimodo-retrieval", str(texts), "--embeddings", str(soma.embeddings))
    assert done.exit_code == 2
    assert "0 cases" in done.output


def test_eval_on_prompts(cli: Cli, cases: Path, soma: KimodoOptions, recorded: Path) -> None:
    policy = ("--policy", "kimodo", "--policy.embeddings", str(soma.embeddings), "--inference-timesteps", "2")
    data = ("--dataset", "kimodo-prompts", "--dataset.path", str(cases), "--dataset.held-out", "0.9")
    retrieval = ("--policy.retrieval", str(recorded / "tiny_tmr"))
    done = cli("eval", "text-to-motion", soma.checkpoint, *policy, *data, *retrieval, "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)["metrics"]
    for name in ("skate_contacts", "consistency", "speed", "path", "jerk", "t2m_R03", "t2m_gt_R03", "FID_gen_gt"):
        assert figures[name]["mean"] is not None, name
    assert "no prompt has such constraints" in figures["path_error"]["why"]
    assert "no clips" in figures["movement"]["why"]
    assert not {"protocol", "mode"} & json.loads(done.stdout).keys()  # they say how clips are asked for
    page = Path("out/evaluation.html").read_text()
    assert "wo_mm" not in page
    assert "foot skate, by contacts" in page
    assert "t2m R@3" in page
    assert "texts whose own motion is among the 3 nearest, by TMR-SOMA" in page


def test_a_run_has_these_rows(cli: Cli, asked: tuple[str, ...], soma: KimodoOptions, recorded: Path) -> None:
    words = ("--policy.retrieval", str(recorded / "tiny_tmr"), "--reward", "physics", "--num-steps", "1")
    done = cli(*asked, *words, "--dataset.held-out", "0.8", "--out", "run")
    assert done.exit_code == 0, done.output
    page = Path("run/report.html").read_text()
    for words_of_page in ("foot skate, by contacts", "t2m R@3", "no judge"):
        assert words_of_page in page
    assert cli("grpo", "--resume", "run", "--num-steps", "2").exit_code == 0
    # As in README; the run says its prompts and text vectors.
    named = ("--policy", "kimodo", *words[:2], "--inference-timesteps", "2")
    measured = cli("eval", "text-to-motion", "run", *named, "--out", "out", "--json")
    assert measured.exit_code == 0, measured.output
    assert json.loads(measured.stdout)["metrics"]["t2m_R03"]["mean"] is not None
    table = ("--policy.embeddings", str(soma.embeddings))
    compared = cli("eval", "compare", soma.checkpoint, "run", *named, *table, "--json")
    assert compared.exit_code == 0, compared.output
    quantities = json.loads(compared.stdout)["quantities"]
    assert quantities["skate_contacts"]["differences"]["run"]["n"] == 2
    assert quantities["FID_gen_text"]["differences"] == {}


def test_clips_of_cases(cases: Path, tensors: Tensors) -> None:
    dataset = KimodoClips(PromptOptions(path=cases, held_out=0.9))
    check_dataset(dataset)
    (clip,) = [one for one in dataset.clips("test") + dataset.clips("val") if one.captions == (TEXTS[1],)]
    assert clip.features.shape == (35, 359)
    joints = features_to_joints(clip.features, soma_skeleton())
    known = tensors("representation_soma.npz")["posed_joints"][6:41]
    bones = [(joints - joints[:, :1]).norm(dim=-1), (known - known[:, :1]).norm(dim=-1)]
    same = [place for place, name in enumerate(soma_skeleton().joint_names) if "End" not in name]
    assert_close(bones[0][:, same], bones[1][:, same], atol=1e-3, rtol=0)


def test_audit(cli: Cli, cases: Path, soma: KimodoOptions, recorded: Path) -> None:
    data = ("--dataset", "kimodo-clips", "--dataset.path", str(cases), "--dataset.held-out", "0.9")
    tmr = ("--reward", "kimodo-tmr", "--reward.weights", str(recorded / "tiny_tmr"))
    table = ("--reward.embeddings", str(soma.embeddings))
    done = cli("eval", "sensitivity", *data, *tmr, *table, "--reward", "physics", "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["clips"] == 2
    rows = {row["change"]: row["scores"] for row in document["rows"]}
    assert {"mean-pose", "turned", "noise"} <= rows.keys()
    # A turn and a place change nothing of TMR-SOMA's features; a mean pose does.
    turned, still = (rows[name]["kimodo-tmr"] for name in ("turned", "mean-pose"))
    assert turned["changed"] == pytest.approx(turned["real"], abs=1e-5)
    assert abs(still["changed"] - still["real"]) > 1e-3
    assert rows["above-floor"]["kimodo-tmr"]["changed"] != pytest.approx(turned["real"], abs=1e-5)
    assert rows["noise"]["physics"]["changed"] < rows["noise"]["physics"]["real"]
    assert Path("out/sensitivity.html").is_file()
    refused = {("kimodo-tmr", *tmr[2:]): "no text vectors", ("kimodo-constraints",): "reads motions of Kimodo"}
    for words, said in refused.items():
        done = cli("eval", "sensitivity", *data, "--reward", *words, "--out", "other")
        assert done.exit_code == 2
        assert said in done.output
