"""A program that plays Blender's part: its FBX files are GLB files with the first bytes of binary FBX before them."""

from __future__ import annotations

import sys
from pathlib import Path

MAGIC = b"Kaydara FBX Binary  \0"

_PROGRAM = """#!{python} -S
import json, os, signal, subprocess, sys, time

MAGIC = {magic!r}
VERSION = {version!r}
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "calls.txt"), "a") as calls:
    calls.write(json.dumps([sys.argv[1:], os.environ.get("BLENDER_USER_RESOURCES", "")]) + "\\n")
if "--version" in sys.argv:
    print(VERSION)
    sys.exit({probed})
print("Blender 4.2.0 (hash of a build)")
folder = sys.argv[sys.argv.index("--") + 1]
with open(os.path.join(folder, "jobs.json")) as file:
    jobs = json.load(file)
for job in jobs:
    with open(job["read"], "rb") as file:
        data = file.read()
    said = {{}}
    if b"HANG" in data:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.path.join(here, "child.txt"), "w") as file:
            file.write(str(child.pid))
        time.sleep(600)
    if b"SEGV" in data:
        print("the last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"EXIT" in data:
        print("RuntimeError: no such add-on", flush=True)
        sys.exit(3)
    if b"REFUSE" in data:
        said = {{"error": "Error: Version 6100 unsupported, must be 7100 or later"}}
    elif b"SILENT" not in data:
        fbx = job["read"].endswith(".fbx")
        with open(job["write"], "wb") as file:
            file.write(data[len(MAGIC):] if fbx else MAGIC + data)
    with open(os.path.join(folder, "answers.jsonl"), "a") as file:
        file.write(json.dumps(said) + "\\n")
"""


def stand_in(folder: Path, *, version: str = "Blender 4.2.0", probed: int = 0) -> Path:
    """Write the program into a folder and return it; its calls go into ``calls.txt`` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "blender"
    path.write_text(_PROGRAM.format(python=sys.executable, magic=MAGIC, version=version, probed=probed))
    path.chmod(0o755)
    return path


def as_fbx(glb: Path, path: Path | None = None) -> Path:
    """Write what the program takes for an FBX file with the content of a GLB file."""
    path = glb.with_suffix(".fbx") if path is None else path
    path.write_bytes(MAGIC + glb.read_bytes())
    return path
