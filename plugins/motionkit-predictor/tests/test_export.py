"""Exports of the motion predictor."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import write_bvh
from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit.motion import HUMANML, Motion
from motionkit.starter import OFFSETS, PARENTS, generate
from motionkit_predictor.data.clips import ClipSet
from motionkit_predictor.data.files import open_clip_set, starter_clip_set
from motionkit_predictor.export import runtime
from motionkit_predictor.export.runtime import Predictor
from motionkit_predictor.export.write import export_numpy, export_onnx, export_weights, legend
from motionkit_predictor.network.features import Course, Statistics, pack
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import follow

SHAPE = PredictorSettings(head="both", width=32, window=6, lags=(0.0333, 0.0667), shot=0.2, cosines=4, ahead=(0.2, 0.5))


@pytest.fixture(scope="module")
def clips() -> ClipSet:
    return starter_clip_set(30.0, ("val",))


@pytest.fixture(scope="module")
def saved(clips: ClipSet, tmp_path_factory: pytest.TempPathFactory) -> tuple[MplPredictor, Path]:
    torch.manual_seed(0)
    statistics = Statistics.of([clip.state for clip in clips.clips[:20]], 30.0, SHAPE.lag_frames(30.0))
    network = PredictorNetwork(SHAPE, len(clips.names), 30.0, statistics)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    predictor = MplPredictor(
        SHAPE, network, names=clips.names, parents=clips.parents, offsets=clips.clips[0].offsets, fastest=0.9
    )  # fmt: skip
    return predictor, predictor.save(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def onnx(saved: tuple[MplPredictor, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an export to ONNX, which takes seconds."""
    folder = tmp_path_factory.mktemp("exported") / "onnx"
    file, obstacles = export_onnx(str(saved[1]), folder)
    assert (file, obstacles) == (folder / "delta.onnx", [])
    return folder


def test_the_weights_are_the_folder_itself(saved: tuple[MplPredictor, Path], tmp_path: Path) -> None:
    file, obstacles = export_weights(str(saved[1]), tmp_path / "out")
    assert (file.name, obstacles) == ("model.safetensors", [])
    for name in ("model.safetensors", "policy.json"):
        assert (tmp_path / "out" / name).read_bytes() == (saved[1] / name).read_bytes()
    with pytest.raises(MotionkitError):
        export_weights(str(saved[1]), tmp_path / "out")
    export_numpy(str(saved[1]), tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "predictor.py").exists()


def test_onnx_gives_the_same_frames(saved: tuple[MplPredictor, Path], clips: ClipSet, onnx: Path) -> None:
    predictor, _ = saved
    described = json.loads((onnx / "onnx.json").read_text())
    known = torch.stack([pack(clip.state.part(0, 6), 30.0) for clip in clips.clips[:3]]).float()
    states = [clip.state.part(0, 6).map(lambda values: values[None]) for clip in clips.clips[:3]]
    network = predictor.network
    heads = {
        "delta": MplPredictor(SHAPE, _only(network, "delta"), names=predictor.names, parents=predictor.parents,
                              offsets=predictor.offsets),
        "one-shot": MplPredictor(SHAPE, _only(network, "shot"), names=predictor.names, parents=predictor.parents,
                                 offsets=predictor.offsets),
    }  # fmt: skip
    for name, head in heads.items():
        session = onnxruntime.InferenceSession(onnx / f"{name}.onnx", providers=["CPUExecutionProvider"])
        inputs = {"frames": known.numpy(), "condition": np.zeros((3, 9), np.float32)}
        assert described[name]["inputs"] == {"frames": ["N", 6, 138], "condition": ["N", 9]}
        (following,) = session.run(None, inputs)
        frames = following.shape[1]
        assert described[name]["outputs"] == {"following": ["N", frames, 138]}
        for row, state in enumerate(states):
            wanted = pack(head.predict(state, frames), 30.0)[0]
            torch.testing.assert_close(torch.from_numpy(following[row]), wanted, atol=2e-4, rtol=1e-4)


def test_all_columns_are_named_with_unit_and_range(
    saved: tuple[MplPredictor, Path], clips: ClipSet, tmp_path: Path
) -> None:
    _, folder = saved
    export_numpy(str(folder), tmp_path / "out")
    document = json.loads((tmp_path / "out" / "legend.json").read_text())
    assert (document["fps"], document["past"], document["reach"]) == (30.0, 3, 6)
    assert document["joints"] == list(clips.names)
    assert document["shares"] == {"delta": 0.25, "one-shot": 0.75}
    columns = document["frames"]
    assert [column["column"] for column in columns] == list(range(138))
    assert columns[6 * 4 + 5]["name"] == "left_knee: y axis, z"
    assert (columns[6 * 4 + 5]["unit"], columns[6 * 4 + 5]["range"]) == ("", [-1, 1])
    assert [column["unit"] for column in columns[132:]] == ["m/s", "m/s", "rad/s", "m", "", ""]
    assert columns[137]["name"] == "right foot stands"
    rows = torch.cat([pack(clip.state, 30.0) for clip in clips.clips[:20]])
    assert [column["mean"] for column in columns] == pytest.approx(rows.mean(0).tolist(), abs=1e-5)
    for place, column in enumerate(columns):
        if column["range"] is not None:
            low, high = column["range"]
            assert low - 1e-6 <= float(rows[:, place].min()) <= float(rows[:, place].max()) <= high + 1e-6
    assert [column["name"] for column in document["condition"]][:2] == [
        "path in 0.2 s: to the left", "path in 0.2 s: ahead",
    ]  # fmt: skip
    assert len(document["condition"]) == 9


def test_the_condition_has_the_columns_of_the_legend(saved: tuple[MplPredictor, Path]) -> None:
    """A path that goes to the left and turns there, seen by its column names."""
    predictor, _ = saved
    steps = torch.tensor([[[0.02, 0.01, 0.03]]]).repeat(1, 30, 1)
    (row,) = Course(steps, SHAPE.ahead_frames(30.0)).at(torch.zeros(1, 2), torch.zeros(1), 0)
    place, yaw = follow(steps[0])
    frames = {"0.2": 6, "0.5": 15}
    for column in legend(predictor)["condition"]:
        found = re.match(r"path in (\S+) s: (.*)", column["name"])
        value = float(row[column["column"]])
        if found is None:
            assert value == 1.0
            continue
        at = frames[found[1]] - 1
        wanted = {
            "to the left": place[at, 0], "ahead": place[at, 1],
            "sine of its heading": yaw[at].sin(), "cosine of its heading": yaw[at].cos(),
        }  # fmt: skip
        assert value == pytest.approx(float(wanted[found[2]]), abs=1e-6)


def test_the_runtime_gives_what_the_test_vector_says(saved: tuple[MplPredictor, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_numpy(str(saved[1]), out)
    vector = json.loads((out / "test_vector.json").read_text())["arrays"]
    given = vector["input"]
    names = ("rotations", "steps", "heights", "contacts")
    arrays = [np.array(given[name]) for name in names]
    for path, wanted in ((None, vector["output"]["free"]), (np.array(given["path"]), vector["output"]["path"])):
        found = Predictor.open(out).predict(*arrays, frames=given["frames"], path=path)
        for name, values in zip(names, found, strict=True):
            np.testing.assert_allclose(values, np.array(wanted[name]), atol=5e-5)
    moved = np.abs(np.array(vector["output"]["free"]["steps"]) - np.array(vector["output"]["path"]["steps"]))
    assert moved.max() > 1e-3, "the path changes what comes out"


def test_the_runtime_follows_a_path_as_the_predictor_does(
    saved: tuple[MplPredictor, Path], clips: ClipSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a millionth after the first second, and the same when old frames were dropped many times."""
    predictor, folder = saved
    whole = clips.clips[0].state.part(0, 38)
    known, path = whole.part(0, 8), (whole.part(8).steps + 0.01).float()
    wanted = predictor.predict(known.map(lambda values: values[None].float()), 30, command=path[None])
    arrays = [values.numpy() for values in (known.rotations, known.steps, known.heights, known.contacts)]
    found = Predictor.open(folder).predict(*arrays, frames=30, path=path.numpy())
    for one, other in zip(found, (wanted.rotations, wanted.steps, wanted.heights, wanted.contacts), strict=True):
        assert np.abs(one[:6] - other[0, :6].numpy()).max() < 1e-6
        np.testing.assert_allclose(one, other[0].numpy(), atol=2e-5)
    monkeypatch.setattr(runtime, "_ROOM", 1)
    again = Predictor.open(folder).predict(*arrays, frames=30, path=path.numpy())
    for one, other in zip(found, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_onnx_gives_what_the_test_vector_says(onnx: Path) -> None:
    vector = json.loads((onnx / "test_vector.json").read_text())
    assert set(vector) == {"delta", "one-shot"}
    for name, example in vector.items():
        session = onnxruntime.InferenceSession(onnx / f"{name}.onnx", providers=["CPUExecutionProvider"])
        given = {key: np.array(values, np.float32)[None] for key, values in example["input"].items()}
        (following,) = session.run(None, given)
        np.testing.assert_allclose(following[0], np.array(example["output"]["following"]), atol=2e-4, rtol=1e-4)


def test_a_bvh_file_goes_through_the_exported_folder_without_torch(
    saved: tuple[MplPredictor, Path], onnx: Path, tmp_path: Path
) -> None:
    """The loop of docs/predictor.md for ONNX, and the numpy runtime, both from a file."""
    predictor, folder = saved
    made = generate("walk", fps=30.0, frames=60, seed=1)
    translations = torch.from_numpy(OFFSETS.copy()).repeat(60, 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    write_bvh(
        tmp_path / "walk.bvh",
        Motion(HUMANML.joint_names, PARENTS, torch.from_numpy(OFFSETS.copy()), torch.from_numpy(made.rotations),
               translations, 30.0),
    )  # fmt: skip
    clips = open_clip_set([str(tmp_path / "walk.bvh")], 30.0).in_order(predictor.names)
    known = clips.clips[0].state.map(lambda values: values[None])
    export_numpy(str(folder), tmp_path / "numpy")
    begin = "import sys; sys.modules['torch'] = sys.modules['motionkit'] = None\nimport numpy as np\n"
    script = begin + (
        "from bvh_file import read_bvh\nfrom known_frames import Body\nfrom predictor import Predictor\n"
        "known = Body.open('.').of_rig(*read_bvh('../walk.bvh'))\n"
        "np.save('found.npy', Predictor.open('.').predict(*known, frames=9)[0])\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "numpy", check=True)
    found = torch.from_numpy(np.load(tmp_path / "numpy" / "found.npy")).float()
    torch.testing.assert_close(found, predictor.predict(known, 9).rotations[0], atol=5e-5, rtol=0)
    script = begin + (
        "import onnxruntime\nfrom bvh_file import read_bvh\nfrom known_frames import Body\n"
        "body = Body.open('.')\n"
        f"rows = body.rows(*body.of_rig(*read_bvh({str(tmp_path / 'walk.bvh')!r})))\n"
        "delta = onnxruntime.InferenceSession('delta.onnx', providers=['CPUExecutionProvider'])\n"
        "told = np.zeros((1, delta.get_inputs()[1].shape[1]), np.float32)\n"
        "for _ in range(9):\n"
        "    (following,) = delta.run(None, {'frames': rows[None, -body.reach:], 'condition': told})\n"
        "    rows = np.concatenate([rows, following[0]])\n"
        "rotations, steps, heights, contacts = body.frames(rows[-9:])\n"
        f"np.save({str(tmp_path / 'found.npy')!r}, rotations)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=onnx, check=True)
    found = torch.from_numpy(np.load(tmp_path / "found.npy")).float()
    with torch.no_grad():  # frame by frame, whatever feet say of the root
        wanted = _only(predictor.network, "delta").free_run(known.map(lambda values: values.float()), 9)
    torch.testing.assert_close(found, wanted.rotations[0], atol=2e-4, rtol=0)


def test_a_predictor_of_one_head_without_a_path(clips: ClipSet, tmp_path: Path) -> None:
    shape = SHAPE.model_copy(update={"head": "one-shot", "command": "none"})
    network = PredictorNetwork(shape, 22, 30.0, Statistics.neutral(22))
    predictor = MplPredictor(shape, network, names=clips.names, parents=clips.parents, offsets=clips.clips[0].offsets)
    export_numpy(str(predictor.save(tmp_path / "saved")), tmp_path / "out")
    document = json.loads((tmp_path / "out" / "legend.json").read_text())
    assert (document["shares"], document["condition"]) == ({"one-shot": 1.0}, [])
    vector = json.loads((tmp_path / "out" / "test_vector.json").read_text())
    assert set(vector["arrays"]["output"]) == {"free"}
    assert np.isfinite(np.array(vector["arrays"]["output"]["free"]["rotations"])).all()


@pytest.mark.parametrize("told", [True, False])
def test_joined_as_onnx_json_says_the_heads_predict_as_the_predictor(
    saved: tuple[MplPredictor, Path], clips: ClipSet, onnx: Path, told: bool
) -> None:
    """By a program that has the files alone."""
    predictor, _ = saved
    described = json.loads((onnx / "onnx.json").read_text())
    run = {name: onnxruntime.InferenceSession(onnx / f"{name}.onnx") for name in ("delta", "one-shot")}
    joined = described["joined"]
    steer, stand, lively = joined["steer"], joined["stand"], joined["lively"]
    assert joined == {
        "share": 0.75, "first": 6, "again": 3, "most": 0.02, "ahead": [6, 15], "steer": steer, "stand": stand,
        "lively": lively,
    }  # fmt: skip
    assert lively == {"frames": 6, "share": 0.9, "power": 2.0, "gain": 1.5}
    assert steer == {"nearer": 3.0, "longer": 0.25, "curve": 0.3, "fastest": 0.9}
    assert [clips.names[foot] for foot in stand.pop("feet")] == ["left_foot", "right_foot"]
    assert stand == {"held": 0.3, "level": 0.01, "astray": 0.5}
    feet = [clips.names.index("left_foot"), clips.names.index("right_foot")]
    whole = clips.clips[0].state.part(0, 30).map(lambda values: values[None].float())
    path = whole.part(6).steps + 0.02
    draws = torch.Generator().manual_seed(0)
    shaken = matrix_from_6d(matrix_to_6d(whole.rotations) + 0.5 * torch.randn(1, 30, 22, 6, generator=draws))
    whole = whole if told else replace(whole, rotations=shaken)
    rows, six = pack(whole.part(0, 6), 30.0), 6 * len(clips.names)
    place, yaw = (torch.cat([torch.zeros_like(part[:, :1]), part], dim=1)[0] for part in follow(path))

    def seen(made: torch.Tensor, ahead: int) -> torch.Tensor:
        at, facing = (part[0, -1] for part in follow(torch.cat([torch.zeros(1, 1, 3), made], dim=1)))
        away, turn = place[made.shape[1] + ahead] - at, yaw[made.shape[1] + ahead] - facing
        x, z = away[0] * facing.cos() - away[1] * facing.sin(), away[1] * facing.cos() + away[0] * facing.sin()
        return torch.stack([x, z, turn])

    def condition(made: torch.Tensor) -> torch.Tensor:
        if not told:
            return torch.zeros(1, 9)
        points = [seen(made, ahead) for ahead in joined["ahead"]]
        for point, ahead in zip(points, joined["ahead"], strict=True):
            point[:2] = shortened(point[:2], steer["fastest"] / 30.0 * ahead)
        seen_from_here = [value for x, z, turn in points for value in (x, z, turn.sin(), turn.cos())]
        return torch.tensor([[*seen_from_here, 1.0]])

    def shortened(way: torch.Tensor, most: float) -> torch.Tensor:
        return way * min(1.0, most / max(1e-9, float(way.norm())))

    def steered(made: torch.Tensor, pull: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        if not told:
            return torch.cat([said[:2] + shortened(pull, joined["most"]), said[2:]])
        there = seen(made, 1)
        off = float((there - said)[:2].norm())
        pull = max(0.0, 1 - off / stand["astray"]) * shortened(pull, joined["most"])
        step = torch.cat([said[:2] + pull, said[2:]])
        missed, far = steer["nearer"] / 30.0 * (there - step), step[:2].norm()
        way = step[:2] - said[:2] + shortened(missed[:2], steer["longer"] * float(far))
        turn = missed[2:].clamp(-steer["curve"] * far, steer["curve"] * far)
        moved = shortened(said[:2] + shortened(way, joined["most"]), steer["fastest"] / 30.0)
        return torch.cat([moved, step[2:] + turn])

    def pulled(before: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """Joint by joint, of rows of two frames."""
        there = []
        for frame in (before, row):
            local = matrix_from_6d(frame[:six].unflatten(-1, (-1, 6))).double()
            turned, places = [local[0]], [torch.zeros(3).double()]
            for joint in range(1, len(clips.names)):
                parent = clips.parents[joint]
                places.append(places[parent] + turned[parent] @ predictor.offsets[joint])
                turned.append(turned[parent] @ local[joint])
            there.append([places[foot] for foot in feet])
        step = row[six : six + 3].double() / 30.0
        cos, sin = step[2].cos(), step[2].sin()
        scores = [math.exp(-float(old[1] + new[1]) / 2 / stand["level"]) for old, new in zip(*there, strict=True)]
        pull = torch.zeros(2).double()
        for side, (old, new) in enumerate(zip(*there, strict=True)):
            x, z = new[0] * cos + new[2] * sin, new[2] * cos - new[0] * sin
            way = torch.stack([old[0] - x, old[2] - z]) - step[:2]
            stands = min(float(before[side - 2]), float(row[side - 2]))
            pull += stand["held"] * stands * scores[side] / sum(scores) * way
        return pull.float()

    def moved(frames: torch.Tensor) -> float:
        return float(frames[0, -lively["frames"] :, :six].diff(dim=0).unflatten(-1, (-1, 6)).norm(dim=-1).mean())

    moved_first = moved(rows)
    while (done := rows.shape[1] - 6) < 9:
        known, count = rows[:, -6:], joined["again"] if done else joined["first"]
        made = rows[:, 6:, six : six + 3] / 30.0
        following = run["one-shot"].run(None, {"frames": known.numpy(), "condition": condition(made).numpy()})[0]
        shot, own = torch.from_numpy(following[:, :count]), known
        for _ in range(count):
            steps = torch.cat([made, own[:, 6:, six : six + 3] / 30.0], dim=1)
            read = {"frames": own[:, -6:].numpy(), "condition": condition(steps).numpy()}
            own = torch.cat([own, torch.from_numpy(run["delta"].run(None, read)[0])], dim=1)
        mixed = torch.lerp(own[:, 6:], shot, joined["share"])
        whole_again = matrix_to_6d(matrix_from_6d(mixed[..., :six].unflatten(-1, (-1, 6)))).flatten(-2)
        if done and not told:
            ratio = lively["share"] * moved_first / moved(rows)
            gain = min(lively["gain"], max(1.0, ratio) ** lively["power"])
            assert gain > 1.0
            said = known[:, -1:, :six] + gain * (whole_again - known[:, -1:, :six])
            whole_again = matrix_to_6d(matrix_from_6d(said.unflatten(-1, (-1, 6)))).flatten(-2)
        before = known[0, -1]
        for frame in range(count):
            row = torch.cat([whole_again[:, frame], mixed[:, frame, six:]], dim=-1)[0]
            said = row[six : six + 3] / 30.0
            pull = pulled(before, row) if done else torch.zeros(2)
            before = row.clone()
            row[six : six + 3] = 30.0 * steered(rows[:, 6:, six : six + 3] / 30.0, pull, said)
            rows = torch.cat([rows, row[None, None]], dim=1)
    wanted = pack(predictor.predict(whole.part(0, 6), 9, command=path if told else None), 30.0)
    torch.testing.assert_close(rows[:, 6:], wanted, atol=2e-4, rtol=1e-3)


def _only(network: PredictorNetwork, head: str) -> PredictorNetwork:
    import copy

    kept = copy.copy(network)
    kept._modules = {**network._modules, {"delta": "shot", "shot": "delta"}[head]: None}
    return kept
