"""`motionkit generate` and `motionkit export` as a user calls them."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from motionkit import starter
from motionkit.cli import get_app
from motionkit.formats.bvh import read_bvh
from motionkit.formats.glb import read_glb
from motionkit.motion import HUMANML, Normalizer, ReadOptions, features_to_joints
from motionkit.rl import Schedule
from motionkit.text_to_motion.mdm.files import export_stock
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.text_to_motion.mdm.open import new_policy, open_encoder
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.text_to_motion.serve import Site, Studio

from ..made.commands import assert_refused
from ..made.plain import plain_dataset


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(get_app(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained starter-like policy."""
    source = plain_dataset(
        skeleton=HUMANML, fps=20.0, max_length=80, normalizer=Normalizer(torch.zeros(263), torch.full((263,), 0.1))
    )
    shape = MDMSettings(
        layers=1, latent_dim=16, num_heads=2, ff_size=32, patch_size=4, clause_frames=True, diffusion_steps=10
    )
    made = new_policy(shape, dataset=source, encoder=open_encoder("stored"))
    return made.save(tmp_path_factory.mktemp("policy"))


FIRST, SECOND = starter.captions()[:2]


def _generate(policy: Path, *arguments: object) -> Result:
    return _run("generate", *arguments, "--policy.checkpoint", policy, "--device", "cpu")


def test_a_policy_is_sampled_with_the_guidance_that_it_stores(policy: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(policy, own)
    document = json.loads((own / "policy.json").read_text())

    def scale(value: object, *more: object) -> object:
        kept = {key: old for key, old in document.items() if key != "guidance"}
        (own / "policy.json").write_text(json.dumps(kept if value == "older" else kept | {"guidance": value}))
        out = tmp_path / f"{value} {len(more)}"
        result = _generate(own, FIRST, out, "--durations", 1, *more)
        assert result.exit_code == 0, result.stderr
        return json.loads((out / "motions.json").read_text())["guidance_scale"]

    assert [scale("older"), scale(None), scale(1.0), scale(1.0, "--guidance-scale", 3)] == [2.5, 2.5, 1.0, 3.0]
    (own / "policy.json").write_text(json.dumps(document | {"guidance": -1}))
    assert_refused(_generate(own, FIRST, tmp_path / "refused"), "guidance")


def test_threads(policy: Path, tmp_path: Path) -> None:
    made = [tmp_path / f"{number}.npz" for number in (1, 2)]
    for number, out in enumerate(made, start=1):
        result = _generate(policy, FIRST, out, "--durations", 1, "--threads", number)
        assert result.exit_code == 0, result.stderr
        assert torch.get_num_threads() == number


def test_a_policy_is_sampled_in_the_steps_that_it_stores(policy: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(policy, own)
    document = json.loads((own / "policy.json").read_text())
    assert document["sampling_steps"] is None
    (own / "policy.json").write_text(json.dumps(document | {"sampling_steps": 4}))

    def visited(name: str, *more: object) -> object:
        result = _generate(own, FIRST, tmp_path / name, "--durations", 1, *more)
        assert result.exit_code == 0, result.stderr
        return json.loads((tmp_path / name / "motions.json").read_text())["timesteps"]

    schedule = Schedule.named("cosine", 10)
    assert visited("own steps") == schedule.early(4)
    assert visited("even", "--set", "sampler.spacing=even") == schedule.spaced(4)
    assert visited("all", "--inference-timesteps", 10) == list(range(9, -1, -1))
    assert visited("few", "--inference-timesteps", 3) == schedule.spaced(3)
    assert visited("early", "--inference-timesteps", 3, "--set", "sampler.spacing=early") == schedule.early(3)
    (own / "policy.json").write_text(json.dumps(document | {"sampling_steps": 11}))
    assert_refused(_generate(own, FIRST, tmp_path / "refused"), "sampling_steps 11 of 10")


def test_files_and_document(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = _generate(policy, f"{FIRST} | {SECOND}", SECOND, out, "--num-samples", 2, "--durations", "1.5,2", "--json")
    assert result.exit_code == 2  # the second text has one action, not two
    assert not out.exists()
    result = _generate(policy, f"{FIRST} | {SECOND}", out, "--num-samples", 2, "--durations", "1.5,2", "--json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    assert (document["command"], document["status"], document["fps"]) == ("generate", "done", 20.0)
    assert [motion["id"] for motion in document["motions"]] == ["0000_00", "0000_01"]
    motion = document["motions"][0]
    assert [(part["start"], part["end"]) for part in motion["segments"]] == [(0, 30), (30, 70)]
    joints, features = np.load(out / motion["joints"]), np.load(out / motion["features"])
    assert (joints.shape, features.shape, joints.dtype) == ((70, 22, 3), (70, 263), np.float32)
    recovered = features_to_joints(torch.from_numpy(features)[None], HUMANML)[0]
    assert np.allclose(recovered.numpy(), joints, atol=1e-5)
    written = json.loads((out / "motions.json").read_text())
    assert written["motions"] == document["motions"]
    assert written["timesteps"] == list(range(9, -1, -1))


def test_a_motion_does_not_depend_on_its_company(policy: Path, tmp_path: Path) -> None:
    _generate(policy, FIRST, tmp_path / "alone", "--durations", "2", "--seed", 3)
    _generate(policy, SECOND, FIRST, tmp_path / "together", "--durations", "2", "--seed", 3)
    _generate(policy, FIRST, tmp_path / "other", "--durations", "2", "--seed", 4)
    alone, together, other = (
        np.load(tmp_path / name) for name in
        ("alone/new_joints/0000_00.npy", "together/new_joints/0001_00.npy", "other/new_joints/0000_00.npy")
    )  # fmt: skip
    assert np.allclose(alone, together, atol=1e-4)
    assert not np.allclose(alone, other, atol=1e-2)


def test_sampler_options(policy: Path, tmp_path: Path) -> None:
    result = _generate(
        policy, FIRST, tmp_path / "out", "--durations", "1", "--sampler", "ddim", "--inference-timesteps", 4
    )
    assert result.exit_code == 0, result.stderr
    written = json.loads((tmp_path / "out/motions.json").read_text())
    assert len(written["timesteps"]) == 4
    assert written["sampler"]["kind"] == "ddim"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--durations", "two"], "not seconds"),
        (["--durations", "two", "--dry-run"], "not seconds"),
        (["--dataset", "starter", "--dry-run"], "were both given"),
        (["--durations", "-1"], "takes more than 0"),
        (["--reference", "nowhere.pt"], "--reference has no effect"),
        (["--reference", "nowhere.pt", "--dry-run"], "--reference has no effect"),
        (["--durations", "6000"], "at most 100000 are made"),
        (["--port", "81"], "--port has no effect without --serve"),
        (["--inference-timesteps", "11"], "11 sampling steps"),
        (["--fix", "clean"], "--fix clean does not act"),
        (["--names", "maya"], "--names maya is not a rig"),
        (["--names", "maya.bvh"], "--names maya.bvh: there is no such file"),
    ],
)
def test_refusals_make_nothing(policy: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    assert_refused(_generate(policy, FIRST, tmp_path / "out", *arguments), message)
    assert not (tmp_path / "out").exists()


def test_only_what_generate_made_is_replaced(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = _generate(policy, FIRST, SECOND, out, "--durations", "1", "--to", "bvh")
    assert first.exit_code == 0, first.stderr
    for mine in ("mine.txt", "new_joints/mine.npy", "bvh/mine.bvh"):
        (out / mine).write_text("precious")
    again = _generate(policy, FIRST, out, "--durations", "1", "--to", "bvh", "--overwrite")
    assert again.exit_code == 0, again.stderr
    left = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    name = f"{FIRST.lower().rstrip('.').replace(' ', '_')}_s0"
    assert left == [
        f"bvh/{name}.bvh", "bvh/convert.json", "bvh/mine.bvh", "mine.txt", "motions.html", "motions.json",
        "new_joint_vecs/0000_00.npy", "new_joints/0000_00.npy", "new_joints/mine.npy",
    ]  # fmt: skip
    (out / "glb").mkdir()
    (out / "glb/mine.glb").write_text("precious")
    before = (out / "motions.json").stat().st_mtime_ns
    refused = _generate(policy, FIRST, out, "--durations", "1", "--to", "glb", "--overwrite", "--seed", 5)
    assert (refused.exit_code, "glb" in refused.stderr) == (2, True)
    assert (out / "motions.json").stat().st_mtime_ns == before, "nothing was sampled"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FIRST, SECOND, "two.bvh"), "2 clips do not fit into one file"),
        ((FIRST, "mine.bvh/one.bvh"), "there is no folder mine.bvh"),
        ((FIRST, "folder.bvh", "--overwrite"), "is a folder"),
        ((FIRST, "mine.bvh"), "already exists"),
    ],
)
def test_a_place_that_cannot_take_the_motions_is_refused_before_any_is_made(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.bvh").mkdir()
    Path("mine.bvh").write_text("precious")
    monkeypatch.setattr(
        "motionkit.text_to_motion.evaluation.export.generate", lambda *_, **__: pytest.fail("it sampled")
    )
    assert_refused(_generate(policy, *arguments, "--durations", "1"), message)
    assert Path("mine.bvh").read_text() == "precious"


def test_export_and_use(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "mdm"
    result = _run("export", policy, out, "--to", "mdm", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert Path(document["file"]).name == "model000000000.pt"
    assert "patch_size=4" in document["not_in_stock_mdm"]
    assert "cannot load" in " ".join(result.stderr.split())
    assert sorted(path.name for path in out.iterdir()) == [
        "Mean.npy", "Std.npy", "args.json", "export.json", "model000000000.pt",
    ]  # fmt: skip
    arguments = (FIRST, "--durations", "1", "--policy.stats", out)
    assert _generate(Path(document["file"]), *arguments, tmp_path / "one").exit_code == 0
    assert _generate(policy, *arguments, tmp_path / "two").exit_code == 0
    one, two = (np.load(tmp_path / name / "new_joints/0000_00.npy") for name in ("one", "two"))
    assert np.array_equal(one, two)
    assert_refused(_run("export", policy, out), "is not empty")
    (out / "notes.txt").write_text("mine")
    assert _run("export", policy, out, "--overwrite").exit_code == 0
    assert (out / "notes.txt").read_text() == "mine"
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer/args.json").write_text("theirs")
    assert _run("export", policy, tmp_path / "peer", "--overwrite").exit_code == 2
    assert [path.read_text() for path in (tmp_path / "peer").iterdir()] == ["theirs"]


def test_exports(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = _generate(
        policy,
        f"{FIRST} | {SECOND}",
        out,
        "--num-samples",
        2,
        "--durations",
        "1,1",
        "--to",
        "bvh",
        "--to",
        "glb",
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    name = f"{FIRST} {SECOND}".lower().replace(".", "").replace(" ", "_")
    assert sorted(path.name for path in (out / "bvh").glob("*.bvh")) == [f"{name}_s0.bvh", f"{name}_s1.bvh"]
    assert (out / f"glb/{name}_s0.glb").read_bytes()[:4] == b"glTF"
    figures = json.loads(result.stdout)["exports"]["bvh"]
    assert "so that bones keep their length: look there" in result.stderr, "an untrained policy makes no body"
    # An untrained policy makes no body: neither its size nor its legs tell unit and vertical axis.
    read = read_bvh(out / f"bvh/{name}_s1.bvh", ReadOptions(up="y", unit="cm"))[0].motion
    assert (read.frames, read.fps) == (40, 20.0)
    joints = torch.from_numpy(np.load(out / "new_joints/0000_01.npy")).double()
    ours = read.positions()[:, [read.names.index(name) for name in HUMANML.joint_names]]
    assert float((ours - joints).norm(dim=-1).max()) <= figures["residual_max"] + 1e-4
    page = (out / "motions.html").read_text()
    assert FIRST.rstrip(".") in page
    # Motions go by their words; the player numbers two of one text.
    data = json.loads(page.split('<script type="application/json">')[1].split("</script>")[0])
    assert (data["title"], [track["title"] for track in data["tracks"]]) == (
        "2 generated motions", [f"{FIRST} | {SECOND}"] * 2
    )  # fmt: skip
    assert [[part["text"] for part in track["segments"]] for track in data["tracks"]] == [[FIRST, SECOND]] * 2
    assert "://" not in page


def test_files_are_looped_repaired_and_named_as_a_rig(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--loop", "--in-place", "--fps", 30, "--names", "vrm", "--to", "glb", "--durations", 2)
    result = _generate(policy, FIRST, FIRST, out, *words, "--json")
    assert result.exit_code == 0, result.stderr
    name = FIRST.lower().rstrip(".").replace(" ", "_")
    assert sorted(path.name for path in (out / "glb").glob("*.glb")) == [f"{name}_2_s0.glb", f"{name}_s0.glb"]
    (clip,) = read_glb(out / f"glb/{name}_s0.glb", ReadOptions(up="y", unit="m"))
    assert clip.motion.names[:2] == ("hips", "spine")
    assert clip.motion.fps == 30
    places = clip.motion.positions()
    assert float((places[0, :, [0, 2]] - places[-1, :, [0, 2]]).abs().max()) < 0.02
    figures = json.loads(result.stdout)["exports"]["glb"]
    assert {"seam", "rig_contacts"} <= figures.keys()
    # The arrays stay what the policy made, the page shows what the files have.
    assert np.load(out / "new_joints/0000_00.npy").shape == (40, 22, 3)
    page = (out / "motions.html").read_text()
    data = json.loads(page.split('<script type="application/json">')[1].split("</script>")[0])
    assert [track["fps"] for track in data["tracks"]] == [30, 30]


def test_one_file(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.bvh"
    assert _generate(policy, FIRST, out, "--durations", "1").exit_code == 0
    assert read_bvh(out)[0].motion.frames == 20
    again = _generate(policy, FIRST, out, "--durations", "1")
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    assert _generate(policy, FIRST, out, "--durations", "1", "--overwrite").exit_code == 0
    assert_refused(
        _generate(policy, FIRST, tmp_path / "two.bvh", "--durations", "1", "--num-samples", 2),
        "2 clips do not fit into one file",
    )
    assert _generate(policy, FIRST, out, "--to", "glb", "--overwrite").exit_code == 2
    assert "--to tape" in _generate(policy, FIRST, tmp_path / "x", "--to", "tape").stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.bvh"]


def test_what_is_longer_than_the_policy_makes_is_joined_of_blocks(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "long"
    result = _generate(
        policy, FIRST, f"{FIRST} | {SECOND}", out, "--num-samples", 2, "--seed", 5, "--to", "bvh", "--json"
    )
    assert result.exit_code == 0, result.stderr
    motions = json.loads(result.stdout)["motions"]
    assert [motion["frames"] for motion in motions] == [120] * 4  # the policy makes 80 at once
    assert [motion["seams"]["frames"] for motion in motions] == [[60], [60], [60], [60]]
    assert np.load(out / motions[0]["joints"]).shape == (120, 22, 3)
    assert motions == json.loads((out / "motions.json").read_text())["motions"]
    page = (out / "motions.html").read_text()
    notes = json.loads(page.split('<script type="application/json">')[1].split("</script>")[0])["notes"]
    assert len(notes) == 4
    assert all("Joined of 2 blocks, at 3.0 s" in note for note in notes)
    # The same seed gives the same motion, alone in one file too; there the table tells of the seams.
    one = tmp_path / "one.npy"
    alone = _generate(policy, FIRST, one, "--seed", 5)
    assert alone.exit_code == 0, alone.stderr
    assert np.allclose(np.load(one), np.load(out / motions[0]["joints"]), atol=1e-4)
    assert "motions joined of blocks" in alone.stdout
    assert "joints off their way, mm" in alone.stdout
    short = _generate(policy, FIRST, tmp_path / "short.npy", "--durations", 2)
    assert "joined of blocks" not in short.stdout


def test_prompts_of_a_dataset_may_be_longer_than_the_policy_makes(policy: Path, tmp_path: Path) -> None:
    result = _generate(policy, tmp_path / "out", "--dataset", "starter", "--k-segments", 3, "--limit", 2, "--json")
    assert result.exit_code == 0, result.stderr
    motions = json.loads(result.stdout)["motions"]
    assert all(motion["frames"] > 80 and "seams" in motion for motion in motions)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a person walks",), "'a person walks' has no effect with --serve"),
        (("a person walks", "OUT"), "TEXT, 'OUT' have no effect with --serve"),
        (("--to", "glb", "--overwrite"), "--to, --overwrite have no effect with --serve"),
        (("--durations", "3"), "--durations has no effect with --serve"),
        (("--dataset", "starter"), "--dataset has no effect with --serve"),
        (("--num-samples", "2"), "--num-samples has no effect with --serve"),
        (("--limit", "2"), "--split, --k-segments, --limit has no effect with --serve"),
        (("--names", "maya"), "--names maya is not a rig"),
        (("--reference", "starter"), "--reference has no effect in generate"),
        (("--port", "65536"), "'--port': Input should be less than or equal to 65535"),
    ],
)
def test_what_the_served_page_decides_is_refused(words: tuple[str, ...], said: str) -> None:
    for more in ((), ("--dry-run",)):
        assert_refused(_run("generate", "--serve", *words, *more), said)


def test_a_port_in_use_is_told(policy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        result = _run("generate", "--serve", "--port", port, "--policy.checkpoint", policy)
    assert result.exit_code == 2
    assert f"port {port} cannot be used" in result.stderr
    assert "--port N" in result.stderr


def test_the_page_is_served_until_a_signal(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the policy, the steps and the guidance that the command was given."""
    found: dict[str, Any] = {}

    def work(self: Studio) -> None:
        found.update(plan=self.plan.timesteps.tolist(), fps=self.fps, loop=self.edits.loop)
        raise KeyboardInterrupt

    monkeypatch.setattr(Studio, "work", work)
    monkeypatch.setattr(Site, "open", lambda self, studio, **begin: found.update(begin))
    words = ("--inference-timesteps", 5, "--guidance-scale", 4, "--seed", 9, "--fps", 30, "--loop")
    result = _run("generate", "--serve", "--port", 0, *words, "--policy.checkpoint", policy, "--device", "cpu")
    assert result.exit_code == 130
    assert "make motions at http://127.0.0.1:" in result.stderr
    assert (len(found["plan"]), found["fps"], found["loop"]) == (5, 30, True)
    assert (found["guidance"], found["seed"], found["title"]) == (4, 9, f"mdm: {policy}")


def test_without_out_and_page_there_is_nothing_to_do() -> None:
    for more in ((), ("--dry-run",)):
        assert_refused(_run("generate", *more), "there is no OUT")


def test_dip_goes_past_196_frames(tmp_path: Path, text_models: Any) -> None:
    """A file in the layout of DiP, with a text model of its own, by the options of the policy alone."""
    settings = MDMSettings(
        arch="trans_dec", layers=1, latent_dim=16, num_heads=2, ff_size=16, diffusion_steps=10, mask_frames=True,
        context_len=20, pred_len=40, text_encoder="distilbert", text_width=16,
    )  # fmt: skip
    path = export_stock(settings, MDMNetwork(settings), tmp_path / "dip", skeleton=HUMANML)
    args = json.loads((path.parent / "args.json").read_text())
    (path.parent / "args.json").write_text(json.dumps({**args, "text_width": 16}))
    np.save(tmp_path / "Mean.npy", np.zeros(263, np.float32))
    np.save(tmp_path / "Std.npy", np.ones(263, np.float32))
    asked = ["--policy.checkpoint", path, "--policy.stats", tmp_path,
             "--policy.text-model", text_models.distilbert("for-dip")]  # fmt: skip
    done = _run("generate", "a man walks", tmp_path / "out", *asked, "--durations", "15", "--guidance-scale", "7.5",
               "--json")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    (motion,) = json.loads(done.stdout)["motions"]
    assert motion["frames"] == 300
    assert np.load(tmp_path / "out" / motion["features"]).shape == (300, 263)
    refused = _run("generate", "a man walks", tmp_path / "no", "--policy.prefix", tmp_path / "Mean.npy", "--json")
    assert refused.exit_code == 2
    assert "--policy.prefix has no effect here" in json.loads(refused.stdout)["error"]["message"]
