"""A further process of a search: ``python -m motionkit.tuning.worker FOLDER search|seeds [CODE...]``.

`motionkit.tuning.processes` starts it. It ends with its parent, so that a killed search leaves no training behind.
CODE names the files and options that were typed and may run code: the folder alone runs none.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.tuning.study import Study
from motionkit.tuning.trials import Repeated
from motionkit.tuning.work import work


def main(folder: Path, phase: str, code: Collection[str] = ()) -> int:
    """Work until nothing is left; returns the exit code."""
    parent = os.getppid()
    logging.getLogger("motionkit").addHandler(logging.StreamHandler())
    try:
        study = Study.read(folder, code)
        trials = study.seeds if phase == Repeated.phase else study.trials
        signal = work(trials, study.base, alive=lambda: os.getppid() == parent)
    except MotionkitError as error:
        logging.getLogger("motionkit.tuning").error("%s", error.sentence())
        return error.code
    return 128 + signal if signal else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
