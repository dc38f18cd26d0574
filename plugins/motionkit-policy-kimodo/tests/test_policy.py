"""The policy: its contract, the recorded chain through motionkit's sampling, its files, the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

import motionkit
from motionkit.errors import MotionkitError
from motionkit.motion import Motion
from motionkit.rl import length_mask
from motionkit.testing import check_policy
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit_policy_kimodo.policy import KimodoPolicy, export
from motionkit_policy_kimodo.settings import KimodoOptions

Tensors = Callable[[str], dict[str, Tensor]]
MODEL = "model.safetensors"
WALK = Prompt(("a person walks",), (20,), "walk")


def test_contract(soma: KimodoOptions) -> None:
    policy = KimodoPolicy(soma)
    check_policy(policy)
    policy.adapt(r=2, alpha=4.0)
    check_policy(policy)


def test_its_own_sampling(soma: KimodoOptions) -> None:
    policy = KimodoPolicy(soma)
    plan = plan_steps(policy)
    assert plan.timesteps.tolist() == policy.schedule.visited("even", 100)
    assert not plan.sigma.any()
    assert policy.guidance == 2.0


@pytest.mark.parametrize(("name", "limit"), [("chain_10_free", 3e-5), ("chain_10_keyframes", 6e-5)])
@torch.no_grad()
def test_the_recorded_chain(name: str, limit: float, soma: KimodoOptions, tensors: Tensors, recorded: Path) -> None:
    known = tensors(f"tiny_soma/{name}.npz")
    policy, lengths = KimodoPolicy(soma), known["lengths"].tolist()
    policy.texts.vectors["Walk."] = known["text"][0]
    extras = {} if "free" in name else {"constraints": str(recorded / "tiny_soma" / "chain_constraints.json")}
    headings = known["first_heading_angle"].tolist()
    prompts = [
        Prompt((text,), (length,), text, extras={**extras, "heading": heading})
        for text, length, heading in zip(("Walk.", "."), lengths, headings, strict=True)
    ]
    noise = SimpleNamespace(start=lambda *_: known["x_T"], steps=lambda *_: torch.zeros_like)
    made = sample(policy, prompts, plan_steps(policy, steps=10), noise, guidance=2.0)  # type: ignore[arg-type]
    mask = length_mask(known["lengths"], known["x_T"].shape[1])
    assert_close(made.rollout.x0[mask], known["final"][mask], atol=limit, rtol=0)
    if "decoded_posed_joints" in known:
        assert_close(made.motions.joints[mask], known["decoded_posed_joints"][mask], atol=limit, rtol=0)


@torch.no_grad()
def test_guidance_of_text_and_constraints_is_an_option(soma: KimodoOptions, recorded: Path) -> None:
    asked = Prompt(WALK.segments, (60,), extras={"constraints": str(recorded / "tiny_soma" / "chain_constraints.json")})
    x, step, lengths = torch.randn(1, 60, 369), torch.tensor([700]), torch.tensor([60])
    made = []
    for kind in ("nocfg", "regular", None):
        policy = KimodoPolicy(soma.model_copy(update={"cfg_type": kind}))
        made.append([policy.predict(x, step, policy.condition([asked]), lengths, guidance=g) for g in (1.0, 2.0)])
    (plain, same), (one, more), (apart, _) = made
    assert torch.equal(plain, same)
    assert torch.equal(plain, one)  # a weight of 1 is no guidance of both together
    assert float((plain - more).abs().max()) > 1e-3 < float((plain - apart).abs().max())


@torch.no_grad()
def test_heading_and_constraints_of_prompts(soma: KimodoOptions, recorded: Path) -> None:
    policy = KimodoPolicy(soma)
    path = recorded / "tiny_soma" / "chain_constraints.json"
    asked = [WALK, Prompt(WALK.segments, (60,), extras={"heading": 1.5, "constraints": str(path)})]
    both = policy.condition(asked)
    assert both.heading.tolist() == [0.0, 1.5]
    assert both.mask is not None
    assert both.mask.any(-1).any(-1).tolist() == [False, True]
    short = both.select(torch.tensor([0])).at(20)
    assert short.mask is not None
    assert short.mask.shape[1] == 20
    given = KimodoPolicy(soma.model_copy(update={"constraints": path, "heading": 0.5})).condition(asked[1:])
    assert given.heading.tolist() == [1.5]
    with pytest.raises(MotionkitError, match="the motion has 4"):
        KimodoPolicy(soma.model_copy(update={"constraints": path})).condition([Prompt(WALK.segments, (4,))])


def _moved(policy: KimodoPolicy) -> KimodoPolicy:
    """Change the trained weights."""
    with torch.no_grad():
        for values in policy.network.parameters():
            if values.requires_grad:
                values.add_(0.01)
    return policy


@torch.no_grad()
@pytest.mark.parametrize("lora", [False, True])
def test_saved_policies_come_back(lora: bool, soma: KimodoOptions, tmp_path: Path) -> None:
    policy = KimodoPolicy(soma)
    if lora:
        policy.adapt(r=2, alpha=4.0)
    folder = _moved(policy).save(tmp_path / "policy")
    again = KimodoPolicy(KimodoOptions(checkpoint=str(folder)))  # the table is that of policy.json
    x, lengths, step = torch.randn(1, 20, 369), torch.tensor([20]), torch.tensor([500])
    one, other = (each.predict(x, step, each.condition([WALK]), lengths, guidance=2.0) for each in (policy, again))
    assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert json.loads((folder / "policy.json").read_text())["guidance"] == 2.0
    twice = KimodoPolicy(KimodoOptions(checkpoint=str(again.save(tmp_path / "twice"))))
    assert_close(twice.predict(x, step, twice.condition([WALK]), lengths), again.predict(
        x, step, again.condition([WALK]), lengths), atol=1e-6, rtol=0)  # fmt: skip


def test_damaged_records_are_refused(soma: KimodoOptions, tmp_path: Path) -> None:
    folder = KimodoPolicy(soma).save(tmp_path / "policy")
    for content, said in (({"kind": "mdm"}, "not a policy of Kimodo"), ({"kind": "kimodo"}, "is damaged")):
        (folder / "policy.json").write_text(json.dumps(content))
        with pytest.raises(MotionkitError, match=said):
            KimodoPolicy(KimodoOptions(checkpoint=str(folder)))


def test_export_of_a_tuned_policy_is_the_official_layout(soma: KimodoOptions, tmp_path: Path) -> None:
    policy, before = KimodoPolicy(soma), Path(soma.checkpoint)
    policy.adapt(r=2, alpha=4.0, targets=["text"])
    _moved(policy).save(tmp_path / "policy")
    file, lost = export(str(tmp_path / "policy"), tmp_path / "out")
    assert file == tmp_path / "out" / MODEL
    assert not lost
    for path in before.rglob("stats/motion/*/*.npy"):
        assert (tmp_path / "out" / path.relative_to(before)).read_bytes() == path.read_bytes()
    assert (tmp_path / "out" / "config.yaml").read_bytes() == (before / "config.yaml").read_bytes()
    old, new = load_file(before / MODEL), load_file(file)
    assert list(old) == list(new)
    for name, value in old.items():
        assert torch.equal(value, new[name]) != name.endswith("embed_text.weight"), name
    KimodoPolicy(KimodoOptions(checkpoint=str(tmp_path / "out"), embeddings=soma.embeddings))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"checkpoint": ""}, "no Kimodo model is named"),
        ({"embeddings": None}, "no text vectors are named"),
        ({"reference": "x"}, "no effect"),
    ],
)
def test_options_that_are_refused(change: dict[str, object], said: str, soma: KimodoOptions) -> None:
    with pytest.raises(MotionkitError, match=said):
        KimodoPolicy(soma.model_copy(update=change))


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (Prompt(("A person walks.", "A person waves."), (20, 20)), "2 prompts in a row"),
        (Prompt(("A person walks.",), (301,)), "2 to 300"),
        (Prompt(("A person walks.",), (1,)), "2 to 300"),
        (Prompt(("A cat sleeps.",), (20,)), "kimodo-embed"),
        (Prompt(("A person walks.",), (20,), extras={"heading": "north"}), "no heading"),
        (Prompt(("A person walks.",), (20,), extras={"constraints": "none.json"}), "none.json"),
    ],
)
def test_prompts_that_are_refused(prompt: Prompt, said: str, soma: KimodoOptions) -> None:
    with pytest.raises(MotionkitError) as refused:
        KimodoPolicy(soma).condition([prompt])
    assert said in refused.value.sentence()


def test_a_model_without_heading(checkpoint: Path, make_table: Callable[..., Path]) -> None:
    path = checkpoint / "config.yaml"
    path.write_text(path.read_text().replace("input_first_heading_angle: true", "input_first_heading_angle: false"))
    policy = KimodoPolicy(KimodoOptions(checkpoint=str(checkpoint), embeddings=make_table(8)))
    check_policy(policy)
    with pytest.raises(MotionkitError, match="has a first heading, which this model does not read"):
        policy.condition([Prompt(("A person walks.",), (20,), extras={"heading": 1.0})])


def test_generate(cli: Callable[..., Result], soma: KimodoOptions) -> None:
    asked = ("--policy", "kimodo", "--policy.checkpoint", soma.checkpoint, "--policy.embeddings", str(soma.embeddings))
    done = cli(
        "generate", *asked, "A person walks.", "out", "--durations", "1", "--to", "bvh", "--to", "glb", "--to", "npz"
    )
    assert done.exit_code == 0, done.output
    document = json.loads(Path("out/motions.json").read_text())
    assert document["sampler"]["kind"] == "ddim"
    native = motionkit.read(Path("out") / document["motions"][0]["motion"])
    assert isinstance(native.motion, Motion)
    assert native.motion.names[0] == "Hips"
    assert native.motion.rotations.shape == (30, 30, 3, 3)
    (bvh,) = Path("out/bvh").glob("*.bvh")
    read = motionkit.read(bvh, up="y", units="cm")
    assert_close(read.positions()[:, 0], native.positions()[:, 0], atol=1e-4, rtol=0)
    assert len(list(Path("out/glb").glob("*.glb"))) == len(list(Path("out/npz").glob("*.npz"))) == 1
    lacking = cli("generate", *asked[:4], "A person walks.", "other")
    assert lacking.exit_code == 2
    assert "kimodo-embed" in lacking.output


def test_the_g1(cli: Callable[..., Result], checkpoint: Path, make_table: Callable[..., Path]) -> None:
    table = make_table(8)
    policy = KimodoPolicy(KimodoOptions(checkpoint=str(checkpoint), embeddings=table))
    check_policy(policy)
    assert policy.skeleton.humanml is None
    words = ("--policy", "kimodo", "--policy.checkpoint", str(checkpoint), "--policy.embeddings", str(table))
    done = cli("generate", *words, "A robot stands still.", "robot.bvh", "--durations", "1")
    assert done.exit_code == 0, done.output
    assert "left_hip_pitch" in Path("robot.bvh").read_text()


def test_check(cli: Callable[..., Result], recorded: Path, tmp_path: Path) -> None:
    shown = json.loads(cli("kimodo-check", str(recorded / "tiny_soma"), "--json").stdout)
    assert shown["policy"].startswith("of soma30, 72 tensors with their names, 99,121 values, float32")
    assert "150 frames from noise, finite" in shown["prediction"]
    cut, full = (float(number) for number in re.findall(r"\b\d[\d.e-]+\b", shown["gradient"]))
    assert full > cut > 0
    copy = tmp_path / "copy"
    copytree(recorded / "tiny_soma", copy)
    tensors = load_file(copy / MODEL)
    save_file({name: value * float("inf") for name, value in tensors.items()}, copy / MODEL)
    broken = cli("kimodo-check", str(copy))
    assert broken.exit_code == 1
    assert "not finite" in broken.stderr
