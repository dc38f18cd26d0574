"""``python -m motionkit_regions.meteor.build DIR``: make the package's lexicon from WordNet's database files."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

from motionkit_regions.meteor.score import TABLE, as_text, read_wordnet

if __name__ == "__main__":
    lexicon = read_wordnet(Path(sys.argv[1]))
    data = lzma.compress(as_text(lexicon).encode(), preset=9 | lzma.PRESET_EXTREME)
    TABLE.write_bytes(data)
    sys.stdout.write(f"{TABLE}: {len(data):,} bytes, sha256 of the table {lexicon.digest}\n")
