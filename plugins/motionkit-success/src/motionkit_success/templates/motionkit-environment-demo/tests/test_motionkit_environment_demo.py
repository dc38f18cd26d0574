"""The contract that every environment keeps."""

from motionkit_success.checks import check_environment


def test_contract() -> None:
    check_environment("demo", options={"max_steps": 20})
