"""Commands as they are typed."""

from __future__ import annotations

from typer.testing import CliRunner, Result


def run(*words: object) -> Result:
    """Run ``motionkit`` with these words in this process."""
    from motionkit.cli import get_app

    return CliRunner().invoke(get_app(), [str(word) for word in words])
