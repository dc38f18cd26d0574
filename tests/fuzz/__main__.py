"""``python tests/fuzz``: the fuzzer without pytest.

python tests/fuzz                            every reader, 15 minutes
python tests/fuzz bvh captions --minutes 2   some readers
python tests/fuzz bvh --seed 1234            one input again: what becomes of it, and where
python tests/fuzz --list                     the readers
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import types
from itertools import count
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run it; 1 when something escaped."""
    sys.path = [folder for folder in sys.path if Path(folder).resolve() != _HERE]
    package = types.ModuleType("tests")
    package.__path__ = [str(_HERE.parent)]
    sys.modules["tests"] = package  # whatever else is called tests on this machine
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("reader", nargs="*", help="readers; default: all")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, help="one input of one reader")
    parser.add_argument("--keep", type=Path, help="folder for inputs that escape; default: a temporary one")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        from tests.fuzz.worker import serve

        serve(given.serve)
        return 0
    from tests.fuzz.hunt import Row, Worker, hunt, table
    from tests.fuzz.readers import READERS

    if given.list:
        print(*READERS, sep="\n")
        return 0
    if unknown := [name for name in given.reader if name not in READERS]:
        parser.error(f"no reader {unknown[0]!r}; there are {', '.join(READERS)}")
    rows = [Row(name) for name in given.reader or READERS]
    worker = Worker(given.keep or Path(tempfile.mkdtemp(prefix="motionkit-fuzz-")))
    try:
        if given.seed is not None:
            for row in rows:
                verdict = worker.ask(row.reader, given.seed)
                print(
                    *(f"{key}: {value}" for key, value in verdict.items()),
                    f"input: {worker.scratch / 'input'}",
                    sep="\n",
                )
            return 0
        until = time.monotonic() + 60 * given.minutes
        for start in count(given.first, 25):
            for row in rows:
                before = len(row.escapes)
                hunt(worker, row, range(start, start + 25), until)
                for escape in row.escapes[before:]:
                    print(escape, end="\n\n", flush=True)
            if time.monotonic() > until:
                break
    finally:
        worker.close()
    print(table(rows))
    return 1 if any(row.escapes for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
