"""Runs with a libcuda that has no GPU (host/fake_driver.cpp): CudaDriver's own calls, on CPU memory. Prints JSON."""

from __future__ import annotations

import contextlib
import json
import sys
import types
from pathlib import Path

import torch

import motionkit.kernels._backend as backend
from motionkit.errors import MotionkitError
from motionkit.kernels import features_to_joints, physics_terms
from motionkit.kernels._driver import CudaDriver

sys.path.insert(0, str(Path(__file__).parent.parent))
from kernels.cases import distance, rows, walkers


class State:
    capability, capturing, synchronised = (9, 0), False, 0


def synchronize(device):
    State.synchronised += 1


torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda index: State.capability
torch.cuda.is_current_stream_capturing = lambda: State.capturing
torch.cuda.device = lambda device: contextlib.nullcontext()
torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=0x51)
torch.cuda.synchronize = synchronize


def physics(name="cuda"):
    joints = walkers(2, 30, 5).requires_grad_()
    terms = physics_terms(joints, torch.tensor([30, 17]), feet=(1, 2), backend=name)
    (terms.skate.sum() + terms.jerk.sum()).backward()
    return torch.cat([*terms, joints.grad.flatten()])


def error(**state):
    for key, value in state.items():
        setattr(State, key, value)
    try:
        with backend.use_driver("cpu", CudaDriver()):
            physics()
    except MotionkitError as caught:
        return f"{caught.message} {caught.why}"
    return ""


report = {}
with backend.use_driver("cpu", CudaDriver()):
    report["physics"] = distance(physics(), physics("torch").double())
    features = rows(2, 30, 16)
    made = features_to_joints(features, joints=5, backend="cuda")
    report["recovery"] = distance(made, features_to_joints(features.double(), joints=5))
    report["synchronised"] = State.synchronised
    State.capturing = True
    report["loaded before capture"] = distance(physics(), physics("torch").double())
report["capturing"] = error()
report["old"] = error(capturing=False, capability=(7, 0))
report["unknown"] = error(capability=(77, 0))
State.capability = (7, 0)
with backend.use_driver("cpu", CudaDriver()):
    report["old, auto"] = distance(physics("auto"), physics("torch").double())
sys.stdout.write(json.dumps(report))
