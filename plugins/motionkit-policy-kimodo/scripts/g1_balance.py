"""Does `g1-balance` put a robot in balance that was not? Motions by formula, and what a policy of them is worth.

- ``python g1_balance.py motions ROBOT.xml FOLDER``: motions of 42 texts, and text vectors.
- ``python g1_balance.py measure ROBOT.xml FOLDER RUN ...``: policies of runs, on texts that were not trained on.

Squats, sways and steps of the Unitree G1, by inverse kinematics of its legs on its own hinges: the feet are where
they should be, and the centre of mass is. In one of the three motions of each text it is over the feet, in the others
it is carried past the toes, and steps are made without carrying it from foot to foot. The text does not say which. The
vector of a text is the sum of seeded random vectors of its words, so that one that was not trained on means something.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import torch
from torch import Tensor

from motionkit import load_dataset, load_policy, load_reward
from motionkit.formats import WriteOptions
from motionkit.kernels import physics_sums
from motionkit.metrics import movement
from motionkit.motion import Clip
from motionkit.rl import NoiseSource, stable_hash
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.rewards.ask import ask
from motionkit_policy_kimodo.balance import GRAVITY
from motionkit_policy_kimodo.mjcf import Robot, read_robot
from motionkit_policy_kimodo.motions import write_kimodo
from motionkit_policy_kimodo.qpos import from_angles, hinges
from motionkit_policy_kimodo.skeletons import body
from motionkit_policy_kimodo.texts import KNOWN, clean, write_vectors

FPS, FRAMES, WIDTH, EACH = 30, 45, 64, 3  # frames per second and of a motion; size of a text vector; motions of a text
SOLE = 0.035  # metres from the ankle to the ground
SAMPLES = 4  # motions of a text
STANCE = 0.12  # metres from the middle to a foot

NAMES = [body("g1").joint_names[row] for row in hinges()[0]]
LEGS = [row for row, name in enumerate(NAMES) if any(part in name for part in ("hip", "knee", "ankle"))]
ARMS = {side: NAMES.index(f"{side}_shoulder_pitch_skel") for side in ("left", "right")}
FEET = [body("g1").feet[0], body("g1").feet[2]]


def texts() -> list[tuple[str, str, str, str]]:
    """Return sentences, and what they say: the action, its size, its speed."""
    sizes = {"squat": ("a little", "halfway", "deeply"), "sway": ("a little", "", "widely"), "step": ("on the spot",)}
    speeds = ("slowly", "", "quickly")
    words = {"squat": "squats", "sway": "sways", "step": "steps"}
    return [
        (" ".join(f"{who} {words[action]} {size} {speed}".split()), action, size, speed)
        for action in words
        for size in sizes[action]
        for speed in speeds
        for who in ("A robot", "The humanoid")
    ]


def wave(time: Tensor, speed: float) -> Tensor:
    """Return a wave from 0 to 1 and back."""
    return (1 - (2 * math.pi * speed * time).cos()) / 2


def targets(
    action: str, size: str, speed: str, frames: int, balanced: bool, draw: torch.Generator
) -> dict[str, Tensor]:
    """Return where the pelvis' height, the centre of mass and the feet should be."""

    def some(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=draw))

    time = torch.arange(frames).double() / FPS
    rate = {"slowly": 0.4, "": 0.6, "quickly": 0.8}[speed] * some(0.9, 1.1)
    much = {"a little": 0.4, "halfway": 0.7, "": 0.7, "widely": 1.0, "deeply": 1.0}.get(size, 1.0) * some(0.9, 1.1)
    zero = torch.zeros_like(time)
    height, across, along = zero + 0.70, zero, zero + 0.03
    feet = torch.zeros(frames, 2, 3).double()
    feet[:, :, 0] = torch.tensor([STANCE, -STANCE]).double()
    feet[..., 1] = SOLE
    if action == "squat":
        height = height - 0.2 * much * wave(time, rate)
    elif action == "sway":
        across = 0.07 * much * (2 * math.pi * 0.7 * rate * time).sin()
    else:
        phase = time * rate
        feet[..., 1] += lifted(phase)
        # The zero-moment point of a wave is a larger one; it is in the foot that stands while the other one swings.
        reach = 1.15 * STANCE if balanced else 0.0
        across = reach / (1 + 0.7 / GRAVITY * (2 * math.pi * rate) ** 2) * (2 * math.pi * phase).sin()
    if not balanced:
        along = along + some(0.16, 0.24)
    return {"height": height, "com": torch.stack([across, along], dim=-1), "feet": feet}


def lifted(phase: Tensor) -> Tensor:
    """Return the heights ``[T, 2]`` of feet that step: in a period the right one swings, then the left one."""
    parts = [((phase - start) / 0.26).remainder(1 / 0.26) * (phase >= start) for start in (0.62, 0.12)]
    return 0.07 * (math.pi * torch.stack(parts, dim=-1).clamp(0, 1)).sin().square()


def solved(robot: Robot, wanted: dict[str, Tensor], arms: Tensor) -> tuple[Tensor, Tensor]:
    """Return rotations and root places whose feet and centre of mass are where they should be."""
    made, frames = body("g1"), len(wanted["com"])
    angles = torch.zeros(frames, 29).double()
    angles[:, LEGS] = torch.tensor([-0.35, 0, 0, 0.7, -0.35, 0] * 2).double()
    for side in ARMS.values():
        angles[:, side] = arms
        angles[:, side + 3] = 0.6
    turn = torch.eye(3).double().expand(frames, 3, 3)
    root = torch.stack([wanted["com"][:, 0], wanted["height"], wanted["com"][:, 1]], dim=-1)

    def off(angles: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        local = from_angles(angles, turn, robot=True)
        world = made.world(local)
        joints = made.joints(world, root)
        tilt = world[:, FEET]  # flat and straight ahead is the identity
        skew = torch.stack([tilt[..., 2, 1], tilt[..., 0, 2], tilt[..., 1, 0]], dim=-1)
        gap = torch.cat([joints[:, FEET] - wanted["feet"], skew], dim=-1)  # [T, 2, 6]
        rows = list(robot.joints)
        centres = joints[:, rows] + (world[:, rows] @ robot.centres[..., None]).squeeze(-1)
        return gap, local, (centres * robot.masses[:, None]).sum(1) / robot.masses.sum()

    for _ in range(4):
        for _ in range(3):  # Gauss-Newton; a leg's six angles move its own foot
            gap, _, _ = off(angles)
            slopes = torch.zeros(frames, 2, 6, 6).double()
            for column in range(6):
                moved = angles.clone()
                moved[:, [LEGS[column], LEGS[6 + column]]] += 1e-5
                slopes[..., column] = (off(moved)[0] - gap) / 1e-5
            damped = slopes.mT @ slopes + 1e-4 * torch.eye(6).double()
            step = torch.linalg.solve(damped, slopes.mT @ gap[..., None]).squeeze(-1)
            angles[:, LEGS] -= step.flatten(1).clamp(-0.3, 0.3)
        _, local, com = off(angles)
        root[:, [0, 2]] += wanted["com"] - com[:, [0, 2]]
    gap, local, _ = off(angles)
    return local, root


def motions(file: Path, folder: Path) -> None:
    """Write the motions, their table, and the text vectors."""
    robot, rows, vectors = read_robot(file), [], {}
    (folder / "motions").mkdir(parents=True, exist_ok=True)
    for number, (text, action, size, speed) in enumerate(texts()):
        for turn in range(EACH):
            draw = torch.Generator().manual_seed(1000 * number + turn)
            wanted = targets(action, size, speed, FRAMES, turn == 0, draw)
            arms = 0.3 * torch.randn((), generator=draw).double() - 0.2
            local, root = solved(robot, wanted, arms)
            path = folder / "motions" / f"{number:02d}_{turn}.kimodo.npz"
            write_kimodo(path, [Clip(body("g1").motion(local, root, FPS))], WriteOptions())
            rows.append((text, f"{FRAMES / FPS + 1e-3:.3f}", f"motions/{path.name}"))
    with (folder / "texts.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("text", "seconds", "motion"), *rows])
    for text in dict.fromkeys(clean(text) for text in (KNOWN, *(row[0] for row in rows))):
        words = text.lower().strip(".").split()
        seeds = [torch.Generator().manual_seed(stable_hash(word) % 2**63) for word in words]
        vectors[text] = torch.stack([torch.randn(WIDTH, generator=seed) for seed in seeds]).sum(0) / len(words) ** 0.5
    write_vectors(folder / "texts.safetensors", vectors, encoder="seeded vectors of words")


@torch.no_grad()
def measure(file: Path, folder: Path, *runs: Path) -> None:
    """Print what the policies of runs make of held-out texts, from the same noise."""
    dataset = load_dataset("kimodo-prompts", path=folder / "texts.csv")
    asked = {prompt.text: prompt for split in ("val", "test") for prompt in dataset.prompts(split)}
    prompts, reward = list(asked.values()), load_reward("g1-balance", mjcf=file)
    print(f"{len(prompts)} texts x {SAMPLES} motions")
    for run in runs:
        policy = load_policy(run, name="kimodo")
        done = sample(
            policy, prompts, plan_steps(policy), NoiseSource(1), samples=SAMPLES, guidance=policy.guidance or 1.0
        )
        motions, scores = done.motions, ask(reward, done.motions, done.prompts)
        moved = movement(motions.joints, motions.headings, motions.lengths, FPS)
        path = motions.joints[:, 1:, 0, [0, 2]] - motions.joints[:, :-1, 0, [0, 2]]
        jerk = physics_sums(motions.joints, motions.lengths, fps=FPS, feet=motions.skeleton.feet)[1]
        figures = {
            "balanced": scores.parts["balanced"], "reward": scores.total, "airborne": scores.parts["airborne"],
            "movement": moved.mean(1), "path": path.norm(dim=-1).sum(1), "jerk": jerk,
        }  # fmt: skip
        print(run, *(f"{name} {float(values.mean()):.4f}" for name, values in figures.items()))


if __name__ == "__main__":
    {"motions": motions, "measure": measure}[sys.argv[1]](*map(Path, sys.argv[2:]))
