"""The contract that every dataset keeps, on a folder of made-up clips."""

from pathlib import Path

import numpy as np
from motionkit.testing import check_dataset, sample_motions


def test_contract(tmp_path: Path) -> None:
    motions = sample_motions(count=40, frames=60)
    for number, (features, length) in enumerate(zip(motions.features, motions.lengths.tolist(), strict=True)):
        np.save(tmp_path / f"{number:03d}.npy", features[:length].numpy())
        (tmp_path / f"{number:03d}.txt").write_text(f"a person does thing {number}.\n")
    check_dataset("demo", options={"root": tmp_path})
