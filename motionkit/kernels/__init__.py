"""Fused CUDA kernels on motions and their plain-torch definitions.

`physics.cu` (foot skate and jerk) and `recover.cu` (features to joints) are compiled by NVRTC at their first use, for
the exact device, and cached under a hash of all inputs. They run for float32 tensors on a CUDA device of compute
capability 7.5 or newer, and plain torch otherwise; ``$MOTIONKIT_KERNELS`` (auto, cuda, torch) and the `backend`
argument choose, `motionkit doctor` reports the choice, and ``python -m motionkit.kernels.selftest`` checks it on this
machine.

The tests need no GPU. They compile the same sources for the CPU and compare them with float64 autograd, look for races,
read the machine code of seven architectures from NVRTC, and make the driver's calls against a libcuda that has no GPU.
docs/kernels.md has what one H100 showed. The speed of `recover.cu` on a GPU and Windows have not been tried.
"""

from motionkit.kernels._backend import backend_report
from motionkit.kernels._functions import features_to_joints, physics_sums, physics_terms

__all__ = [
    "backend_report",
    "features_to_joints",
    "physics_sums",
    "physics_terms",
]
