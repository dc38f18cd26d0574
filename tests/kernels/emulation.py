"""The kernels' own sources, compiled by g++ and run on the CPU behind the driver's interface."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from motionkit.kernels._compile import Spec

HOST = Path(__file__).parent / "host"


def build(spec: Spec, folder: Path, *, text: str | None = None, flags: tuple[str, ...] = ()) -> Path:
    """Compile `spec`, or `text` in its place, into a shared library."""
    text = spec.text() if text is None else text
    macros = [f"-D{name}={value}" for name, value in spec.macros(90).items()]
    recipe = [text, *macros, *flags, *(path.read_text() for path in sorted(HOST.iterdir()) if path.is_file())]
    name = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:20]
    library = folder / f"{name}.so"
    if not library.exists():
        source = folder / f"{name}.cu"
        source.write_text(text)
        # A changed source may leave something unused; it runs once or twice, so that optimising it takes longer.
        how = ("-O1", "-Werror") if text == spec.text() else ("-O0",)
        compile_host(spec, source, library, *how, "-shared", "-fPIC", *macros, *flags)
    return library


def compile_host(spec: Spec, source: Path, out: Path, *flags: str, main: str = "launch.cpp") -> None:
    """Run g++ on the host's launcher with `source` inside it."""
    names = " ".join(f"MK_KERNEL({kernel})" for kernel in spec.kernels)
    given = [f'-DMK_SOURCE="{source}"', f"-DMK_KERNELS={names}", *flags]
    command = ["g++", "-std=c++17", "-Wall", "-Wno-unknown-pragmas", *given, str(HOST / main), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class EmuDriver:
    """Stands where `CudaDriver` does: the same grid, argument order and types, another processor."""

    def __init__(self, folder: Path, change: Callable[[str], str] | None = None, flags: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.flags = flags
        self.change = change
        self.libraries: dict[Spec, ctypes.CDLL] = {}
        self.launched: list[tuple[str, int, int]] = []
        self.reversed = False

    def load(self, spec, device):
        if spec not in self.libraries:
            text = self.change(spec.text()) if self.change else None
            self.libraries[spec] = ctypes.CDLL(str(build(spec, self.folder, text=text, flags=self.flags)))

    def launch(self, spec, kernel, grid, threads, arguments, device):
        self.load(spec, device)
        self.launched.append((kernel, grid, threads))
        library = self.libraries[spec]
        library.mk_reverse(int(self.reversed))
        assert library.mk_launch(kernel.encode(), grid, threads, arguments) == 0

    @staticmethod
    def text(source: str) -> str:
        return Spec(source, (), (), ()).text()
