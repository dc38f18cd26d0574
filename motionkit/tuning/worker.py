"""A further process of a search: ``python -m motionkit.tuning.worker FOLDER search|seeds [CODE...]``.

`motionkit.tuning.search.search` starts it. It ends with its parent, so that a killed search leaves no training behind.
CODE names the files and options that were typed and may run code: the folder alone runs none.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from pathlib import Path

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.tuning.base import Base
from motionkit.tuning.plan import Plan, read_plan
from motionkit.tuning.work import Worker


def base_of(plan: Plan, code: Collection[str] = ()) -> Base:
    """Return trainer and settings of a plan."""
    component = plugins.get("trainers", plan.trainer, typed=plan.trainer in code)
    return Base(plan.trainer, component, plan.base, code=frozenset(code))


def main(folder: Path, phase: str, code: Collection[str] = ()) -> int:
    """Work until nothing is left; returns the exit code."""
    parent = os.getppid()
    logging.getLogger("motionkit").addHandler(logging.StreamHandler())
    try:
        plan = read_plan(folder)
        worker = Worker(plan, base_of(plan, code), folder, alive=lambda: os.getppid() == parent)
        signal = worker.repeat() if phase == "seeds" else worker.search()
    except MotionkitError as error:
        logging.getLogger("motionkit.tuning").error("%s", error.sentence())
        return error.code
    return 128 + signal if signal else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
