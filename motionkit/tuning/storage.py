"""The storage of a search's trials: a journal in the study folder, or any storage of Optuna's."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError
from motionkit.plugins import install_line
from motionkit.tuning.plan import JOURNAL, Plan

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

WAIT = 30.0
"""Seconds to wait for a locked storage."""

_PACKAGES = ("sqlalchemy", "optuna", "redis", "grpc", "psycopg", "filelock")
"""Packages whose errors are those of a storage."""


def open_storage(plan: Plan, folder: Path) -> BaseStorage:
    """Open the storage of a search, that of its URL or the journal in the study folder, and silence Optuna's log."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with storage_errors(plan, folder):
        if plan.storage.startswith("redis"):
            return optuna.storages.get_storage(plan.storage)
        if plan.storage:
            options = {"connect_args": {"timeout": WAIT}} if plan.storage.startswith("sqlite") else {}
            # The driver of the extra `tune`; SQLAlchemy's own choice for this word is an older one.
            url = re.sub(r"^postgres(?:ql)?://", "postgresql+psycopg://", plan.storage)
            return optuna.storages.RDBStorage(url, engine_kwargs=options)
        path = folder / JOURNAL
        _refuse_links(path)
        mend(path)
        return optuna.storages.JournalStorage(JournalFileBackend(str(path), lock_obj=_lock_of(path)))


def open_study(storage: BaseStorage, plan: Plan, folder: Path, name: str) -> Study:
    """Open or create one of the two studies of a search: its trials, or those with further seeds."""
    import optuna

    with storage_errors(plan, folder):
        study = optuna.create_study(study_name=name, storage=storage, direction=plan.direction, load_if_exists=True)
        known = study.user_attrs.get("plan")
        if known is None:
            study.set_user_attr("plan", plan.digest)
        elif known != plan.digest:
            raise MotionkitError(
                f"study {name!r} is there already, with other settings, space, value or data.",
                why="its trials would not be comparable.",
                fix="choose another --name, or run it with the settings and the data that it was begun with.",
            )
    return study


def delete_studies(plan: Plan, folder: Path) -> None:
    """Delete the studies of a search from its storage."""
    import optuna

    with storage_errors(plan, folder):
        storage = open_storage(plan, folder)
        names = [study.study_name for study in optuna.get_all_study_summaries(storage)]
        for name in (plan.study, plan.seeds_study):
            if name in names:
                optuna.delete_study(study_name=name, storage=storage)


@contextmanager
def storage_errors(plan: Plan, folder: Path) -> Iterator[None]:
    """Turn the errors of a search's storage into a `MotionkitError`."""
    where = plan.storage or str(folder / JOURNAL)
    try:
        yield
    except MotionkitError:
        raise
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise _unusable(where, error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _PACKAGES and _raised_in(error) not in _PACKAGES:
            raise
        raise _unusable(where, error) from error


def _raised_in(error: Exception) -> str:
    """Return the package whose code raised an error: a damaged journal makes Optuna raise nearly any."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _unusable(where: str, error: Exception) -> MotionkitError:
    text = " ".join(str(error).split())
    shown = _without_password(where)
    if "locked" in text.lower() or isinstance(error, TimeoutError):
        return MotionkitError(
            f"the storage {shown} is locked by another process.",
            why=f"it stayed so for {WAIT:g} s.",
            fix="wait for that process or end it, then run the same command again; nothing is lost.",
        )
    if isinstance(error, ImportError):
        return MotionkitError(
            f"the storage {shown} needs a driver.", why=text, fix=f"{install_line('tune')}, for PostgreSQL"
        )
    text = f"{type(error).__name__}: {text}" if isinstance(error, LookupError) or not text else text
    if "://" in where:
        fix = "check the URL: sqlite:///tune.db, or leave it out."
    else:
        fix = "copy the study's folder again, or begin another one: --name NEW"
    return MotionkitError(f"the storage {shown} cannot be used.", why=text[:300], fix=fix)


def _without_password(url: str) -> str:
    scheme, marks, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}{marks}{user.partition(':')[0]}{at}{place}" if marks and at else url


def _refuse_links(path: Path) -> None:
    """Refuse a journal or lock that is a link, a pipe or a folder: a search would write to its target."""
    for file in (path, path.with_name(f"{path.name}.lock")):
        if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
            raise MotionkitError(
                f"{file} is not a regular file.",
                why="a search writes to it.",
                fix="copy the study's folder again, or begin another one: --name NEW",
            )


def mend(path: Path) -> None:
    """Cut off an incomplete last line, left by a killed process: the next record would be appended to it."""
    if not path.exists():
        return
    with _lock_of(path), path.open("rb+") as file:
        text = file.read()
        end = text.rfind(b"\n") + 1
        if end < len(text):
            logging.getLogger("motionkit.tuning").warning("%s ended in half a line, which is cut off", path)
            file.truncate(end)


def _lock_of(path: Path) -> Any:
    """Return the lock of a journal, which the system frees when its process dies; Optuna's own locks stay behind."""
    from filelock import FileLock

    return FileLock(f"{path}.lock", timeout=WAIT)
