"""The contract that every reward keeps."""

from motionkit.testing import check_reward


def test_contract() -> None:
    check_reward("demo")
