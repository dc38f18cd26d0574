"""The contract that every trainer keeps, and that it learns."""

from pathlib import Path

from motionkit.testing import check_trainer


def test_contract_and_that_it_learns(tmp_path: Path) -> None:
    document = check_trainer("demo", tmp_path, settings={"run": {"num_steps": 40}})
    assert abs(document["metrics"]["factor"] - 2.0) < 0.01
