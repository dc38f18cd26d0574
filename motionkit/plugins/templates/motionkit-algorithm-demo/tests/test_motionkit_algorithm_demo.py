"""The contract that every algorithm keeps."""

from motionkit.text_to_motion.checks import check_algorithm


def test_contract() -> None:
    check_algorithm("demo")
