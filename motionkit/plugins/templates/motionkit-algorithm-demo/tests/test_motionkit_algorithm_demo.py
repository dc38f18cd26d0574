"""The contract that every algorithm keeps."""

from motionkit.testing import check_algorithm


def test_contract() -> None:
    check_algorithm("demo")
