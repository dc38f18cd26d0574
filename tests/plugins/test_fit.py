"""Which plugins a message suggests."""

from __future__ import annotations

import pytest

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.plugins import fitting, require_fit
from motionkit.plugins._discovery import Entry


def test_a_message_suggests_only_what_is_known_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help must not run code of others, so that it lists them all; a message says what fits."""
    found = plugins.available("rewards")
    stranger = Entry("rewards", "stranger", "no_such_module:component", "a-package", "1.0")
    monkeypatch.setattr("motionkit.plugins.check.available", lambda kind: [*found, stranger])
    assert "stranger" in fitting("rewards", reads=("mask",))
    assert "stranger" not in fitting("rewards", reads=("mask",), certain=True)
    with pytest.raises(MotionkitError) as error:
        require_fit("rewards", "physics", reads=("mask",))
    assert "iou" in error.value.fix
    assert "stranger" not in error.value.fix
