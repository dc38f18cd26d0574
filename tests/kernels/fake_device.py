"""Runs with a libcuda that has no GPU (host/fake_driver.cpp): CudaDriver's own calls, on CPU memory. Prints JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import types
from pathlib import Path

import torch

import motionkit.kernels._backend as backend
from motionkit.errors import MotionkitError
from motionkit.kernels import _backend as _driver
from motionkit.kernels import _compile as _cubins
from motionkit.kernels import features_to_joints, physics_terms
from motionkit.kernels._backend import CudaDriver
from motionkit.kernels._compile import physics_spec

sys.path.insert(0, str(Path(__file__).parent.parent))
from kernels.cases import distance, rows, walkers
from kernels.drivers import use_driver


class State:
    capability, capturing, stream, current = (9, 0), False, 0x51, 0


class Guard:
    """Like torch's: the device that is current anyway is left alone, and no context is made."""

    def __init__(self, device):
        self.index = device if isinstance(device, int) else device.index

    def __enter__(self):
        self.before, State.current = State.current, self.index

    def __exit__(self, *error):
        State.current = self.before


def synchronize(device=None):
    raise AssertionError("nothing waits for a device")


torch.cuda.current_device = lambda: State.current
torch.cuda.get_device_capability = lambda index: State.capability
torch.cuda.is_current_stream_capturing = lambda: State.capturing
torch.cuda.device = Guard
torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=State.stream)
torch.cuda.synchronize = synchronize
# A torch without CUDA has only the slower way to ask for the stream, one with it would look for a GPU.
_driver._raw_stream = None if os.environ.get("MK_OLD_DRIVER") else lambda index: State.stream
_cubins.compiler_build = lambda: os.environ["MK_COMPILER"]  # NVRTC itself must not meet this libcuda
libcuda = ctypes.CDLL("libcuda.so.1")


def physics(name="cuda"):
    joints = walkers(2, 30, 5).requires_grad_()
    terms = physics_terms(joints, torch.tensor([30, 17]), feet=(1, 2), backend=name)
    (terms.skate.sum() + terms.jerk.sum()).backward()
    return torch.cat([*terms, joints.grad.flatten()])


def error(**state):
    for key, value in state.items():
        setattr(State, key, value)
    try:
        with use_driver("cpu", CudaDriver()):
            physics()
    except MotionkitError as caught:
        return f"{caught.message} {caught.why}"
    return ""


def in_a_thread(call):
    """Return what `call` returns in a thread that has not used CUDA yet."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0] if results else None


if "--auto" in sys.argv:
    with use_driver("cpu", CudaDriver()):
        sys.stdout.write(json.dumps(distance(physics("auto"), physics("torch").double())))
    sys.exit()

report = {}
with use_driver("cpu", CudaDriver()):
    report["physics"] = distance(physics(), physics("torch").double())
    features = rows(2, 30, 16)
    made = features_to_joints(features, joints=5, backend="cuda")
    report["recovery"] = distance(made, features_to_joints(features.double(), joints=5))
    State.capturing = True
    report["loaded before capture"] = distance(physics(), physics("torch").double())
    report["a new thread, in capture"] = in_a_thread(lambda: distance(physics(), physics("torch").double()))
    State.stream = 0
    libcuda.mk_expect_stream(1)
    report["legacy stream"] = distance(physics(), physics("torch").double())
    State.stream = 0x51
    libcuda.mk_expect_stream(0x51)
    State.capturing = False
    spec = physics_spec(5, (1, 2))
    driver = backend.driver_of(torch.device("cpu"))
    report["functions"] = [libcuda.mk_loaded(0), libcuda.mk_loaded(1)]
    driver.load(spec, torch.device("cuda", 1))
    report["functions after a second device"] = [libcuda.mk_loaded(0), libcuda.mk_loaded(1)]
report["capturing"] = error(capturing=True)
report["old"] = error(capturing=False, capability=(7, 0))
report["unknown"] = error(capability=(77, 0))
State.capability = (7, 0)
with use_driver("cpu", CudaDriver()):
    report["old, auto"] = distance(physics("auto"), physics("torch").double())
sys.stdout.write(json.dumps(report))
