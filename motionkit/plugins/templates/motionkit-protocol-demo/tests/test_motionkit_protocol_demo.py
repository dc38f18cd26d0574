"""The contract that every protocol keeps."""

from motionkit.testing import check_protocol


def test_contract() -> None:
    result = check_protocol("demo", "starter")
    assert 0.0 < result.figures["demo/speed"] < 5.0
