"""`motionkit doctor`: checks of the installation."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from motionkit import plugins
from motionkit.cli.output import JsonFlag, finish, write
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.page.wording import count
from motionkit.plugins.check import ImportOutcome, diagnose, try_imports
from motionkit.plugins.packages import words
from motionkit.version import __version__


class Check(NamedTuple):
    """One line of the report; `state` is ok, info, warn or fail."""

    name: str
    state: str
    text: str


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def doctor(
        released: Annotated[
            bool,
            typer.Option("--released", help=words("released") or "Check the released files of packages."),
        ] = False,
        root: Annotated[
            Path | None,
            typer.Option("--root", metavar="DIR", help="With --released: the folder that holds them; default: here."),
        ] = None,
        config: Annotated[
            Path | None,
            typer.Option("--config", metavar="FILE", help='With --released: a settings file that says root = "DIR".'),
        ] = None,
        json: JsonFlag = False,
    ) -> None:
        """Check this installation; the output fits into a bug report. With --released, check released files instead.

        Example: motionkit doctor --released --root ~/released
        """
        if released:
            _released(root, config, json=json)
            return
        if root is not None or config is not None:
            raise MotionkitError(
                f"{'--root' if root else '--config'} acts with --released only.", fix="add --released."
            )
        checks = list(run_checks())
        if not json:
            width = max(len(check.name) for check in checks)
            for check in checks:
                write(f"{check.state:<4}  {check.name:<{width}}  {check.text}")
        failed = [check.name for check in checks if check.state == "fail"]
        error = (
            MotionkitError(f"{count(len(failed), 'check')} failed: {', '.join(failed)}.", code=1) if failed else None
        )
        finish({"command": "doctor", "checks": [check._asdict() for check in checks]}, error, json=json)


def _released(root: Path | None, config: Path | None, *, json: bool) -> None:
    """Print which released files exist, and the sources of the others."""
    if root is not None and config is not None:
        raise MotionkitError(
            "--root and --config were both given.", why="each says where the files are.", fix="keep one."
        )
    place = _root_of(config) if config is not None else (root or Path()).expanduser()
    if not place.is_dir():
        raise MotionkitError(f"there is no folder {place}.", fix="--root DIR names the folder that holds the files.")
    answers = [found(place, config) for found in plugins.named("released")]
    findings = [file for files, _ in answers for file in files]
    releases = list(dict.fromkeys(file.release for file in findings))
    of = {release.name: [file for file in findings if file.release is release] for release in releases}
    missing = [release for release in releases if any(file.state == "miss" for file in of[release.name])]
    if not json:
        for release in releases:
            write(f"{release.name}: {release.use}")
            width = max(len(file.path) for file in of[release.name])
            for file in of[release.name]:
                write(f"  {file.state:<4}  {file.path:<{width}}  {file.text}")
            if release in missing:
                write(f"        from {release.source}")
    needed = [release.name for release in missing if release.needed]
    if not needed and not json:
        for _, line in answers:
            write(f"next: {line}")
    files = [
        {"release": file.release.name, "state": file.state, "path": file.path, "text": file.text} for file in findings
    ]
    error = None
    if needed:
        every = sum(release.needed for release in releases)
        error = MotionkitError(
            f"{len(needed)} of {every} downloads that training needs are incomplete: {', '.join(needed)}.",
            why=f"they were searched in {place.resolve()}.",
            fix="put them there as listed above, or name another folder with --root DIR.",
            code=1,
        )
    finish({"command": "doctor", "root": str(place), "files": files}, error, json=json)


def _root_of(config: Path) -> Path:
    """Return the folder that a settings file names as its root."""
    from motionkit.config import read_file

    root = read_file(config).table.get("root")
    if not isinstance(root, str) or not root:
        raise MotionkitError(f"{config} names no root.", fix='write root = "DIR" at its top.')
    return Path(root).expanduser()


def run_checks() -> Iterator[Check]:
    """Yield every check."""
    yield Check("motionkit", "ok", f"{__version__}, {Path(__file__).parents[2]}")
    yield Check("python", "ok", f"{platform.python_version()}, {platform.platform()}")
    yield from _torch()
    yield from _dependencies()
    if sys.modules.get("torch") is None:  # nothing that computes imports either; malformed metadata may be the cause
        yield from _plugins({})
    else:
        yield from _kernels()
        imports = try_imports(plugins.scan().entries)
        yield from _plugins(imports)
        yield from _formats()
        yield from _variables(imports)
    yield _runs_folder()
    yield _cache()


def _torch() -> Iterator[Check]:
    try:
        import torch
    except Exception as error:  # a malformed package of the environment causes other errors
        yield Check("torch", "fail", f"does not import: {error}")
        return
    devices = ["cpu", *(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        devices.append("mps")
    yield Check("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads, devices: {', '.join(devices)}")


def _kernels() -> Iterator[Check]:
    from motionkit.kernels import backend_report

    yield Check("kernels", *backend_report())


def _dependencies() -> Iterator[Check]:
    try:
        needs = metadata.requires("motionkit") or []
    except metadata.PackageNotFoundError:
        yield Check("installed", "fail", "motionkit is not installed: run pip install -e .")
        return
    for need in needs:
        name, _, marker = need.partition(";")
        name = re.split(r"[<>=!~\[ (]", name.strip())[0]
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            if "extra" not in marker:
                yield Check(name, "fail", f"is not installed (motionkit needs {need})")
            continue
        if "extra" not in marker and name != "torch":
            yield Check(name, "ok", version)


def _plugins(imports: Mapping[plugins.Entry, ImportOutcome]) -> Iterator[Check]:
    limit = os.environ.get("MOTIONKIT_PLUGINS")
    if limit is not None:
        yield Check("plugins", "warn", f"MOTIONKIT_PLUGINS={limit!r} limits loading to these packages")
    findings = diagnose(imports)
    for finding in findings:
        state = "fail" if finding.serious else "info" if finding.optional else "warn"
        yield Check("plugins", state, f"{finding.package}: {finding.text}")
    if not any(finding.serious for finding in findings):
        packages = {entry.distribution for entry in plugins.scan().entries}
        yield Check("plugins", "ok", f"{len(plugins.scan().entries)} from {', '.join(sorted(packages))}")


def _formats() -> Iterator[Check]:
    """Yield which formats of motions are ignored, and which lack something here."""
    from motionkit.formats.table import FORMATS, problems

    for problem in problems():
        yield Check("formats", "warn", problem)
    for form in FORMATS.values():
        try:
            form.require({})
        except MotionkitError as error:
            yield Check("formats", "info", f"{form.name}: {error}")
    read = sum(form.reader is not None for form in FORMATS.values())
    written = sum(form.writer is not None for form in FORMATS.values())
    yield Check("formats", "ok", f"{read} are read, {written} are written")


def _variables(imports: Mapping[plugins.Entry, ImportOutcome]) -> Iterator[Check]:
    from motionkit.config import NOT_SETTINGS, PREFIX, variable

    given = [name for name in os.environ if name.startswith(PREFIX)]
    if not given:
        return
    known = set(NOT_SETTINGS)
    for entry, outcome in imports.items():
        if entry.kind == "trainers":
            known |= {variable((name,)) for name in outcome.options}
    for name in given:
        if name in known or name.partition("__")[0] in known:
            yield Check("variable", "ok", f"{name}={os.environ[name]}")
        else:
            hint = did_you_mean(name, known)
            yield Check("variable", "warn", f"{name} is not a setting of any command{f'; {hint}' if hint else ''}")


def _runs_folder() -> Check:
    folder = Path("runs") if Path("runs").is_dir() else Path()
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("runs folder", "warn", f"{folder.resolve()} cannot be written: {error.strerror}; use --out DIR")
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize / 2**30 if sys.platform != "win32" else 0.0
    return Check("runs folder", "ok", f"{folder.resolve()} can be written, {free:.0f} GiB free")


def _cache() -> Check:
    from motionkit.config import cache_folder

    folder, size = cache_folder(), 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # another process may remove it now
                size += (Path(place) / name).stat().st_size
    return Check("cache", "ok", f"{size / 1e9:.1f} GB in {folder}, all of which is made again when it is missing")
