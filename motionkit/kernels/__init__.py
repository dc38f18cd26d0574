"""Fused CUDA kernels on motions and their plain-torch definitions.

`physics.cu` (foot skate and jerk) and `recover.cu` (features to joints) are compiled by NVRTC at their first use, for
the exact device, and cached under a hash of all inputs. They run for float32 tensors on a CUDA device of compute
capability 7.5 or newer, and plain torch otherwise; ``$MOTIONKIT_KERNELS`` (auto, cuda, torch) and the `backend`
argument choose, `motionkit doctor` reports the choice, and ``python -m motionkit.kernels.selftest`` checks it on this
machine.

What the tests cover without a GPU: the same sources compiled for the CPU against float64 autograd, their races, real
machine code for seven architectures from NVRTC 13.0 (13.5 by hand), and the driver's calls against a libcuda that has
no GPU; by hand, all of it under torch 2.11. What has not been run yet: the kernels on a GPU, so neither their speed
nor the hardware's approximate `rsqrt` and `exp` (errors of 2 units in the last place are simulated); Windows.
"""

from motionkit.kernels._backend import backend_report
from motionkit.kernels._functions import features_to_joints, physics_sums, physics_terms

__all__ = [
    "backend_report",
    "features_to_joints",
    "physics_sums",
    "physics_terms",
]
