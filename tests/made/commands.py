"""Commands as they are typed."""

from __future__ import annotations

from typer.testing import CliRunner, Result


def run(*words: object) -> Result:
    """Run ``motionkit`` with these words in this process."""
    from motionkit.cli import get_app

    return CliRunner().invoke(get_app(), [str(word) for word in words])


def assert_refused(done: Result, *words: str, code: int = 2) -> None:
    """Assert that a command ended with this exit code and these words on standard error, without a traceback."""
    said = " ".join(done.stderr.split())
    assert done.exit_code == code, said
    assert "Traceback" not in said
    for word in words:
        assert word in said, said
