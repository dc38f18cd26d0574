"""Compiles a specialised source with the tightest launch bounds that spill no registers."""

from __future__ import annotations

import re

from motionkit.kernels._nvrtc import compile_cubin
from motionkit.kernels._specs import Spec

_SPILLS = re.compile(r"Function properties for (\w+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads")


def build_cubin(spec: Spec, arch: int) -> tuple[bytes, str]:
    """Return the cubin of `spec` for sm_`arch`, and the compiler's log.

    How many registers a kernel needs depends on the body, the device and the compiler's version. So a kernel gets the
    tightest launch bounds first, and looser ones when the compiler's log reports registers spilled to memory.

    Raises:
        MotionkitError: NVRTC is missing, or does not accept the source.
    """
    text, macros, choices = spec.text(), spec.macros(arch), spec.choices(arch)
    macro_of = dict(zip(spec.kernels, spec.bounds, strict=False))
    while True:
        cubin, log = compile_cubin(text, spec.source, macros, arch)
        looser = {}
        for macro in (macro_of.get(kernel, "") for kernel in spilling(log)):
            if len(choices.get(macro, [])) > 1:
                choices[macro] = choices[macro][1:]
                looser[macro] = choices[macro][0]
        if not looser:
            return cubin, log
        macros = {**macros, **looser}


def spilling(log: str) -> list[str]:
    """Return the kernels that spill registers, by the compiler's log."""
    return [kernel for kernel, *spills in _SPILLS.findall(log) if spills != ["0", "0"]]
