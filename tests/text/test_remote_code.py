"""A folder of a text model cannot bring code along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.text import load_encoder


def test_code_in_a_folder_is_not_run_and_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    folder, mark = tmp_path / "model", tmp_path / "ran"
    folder.mkdir()
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\nclass Evil: pass\n")
    classes = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": classes}))
    asked = []
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "y")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    for name, kind in (("clip", "evil"), ("clip", "clip"), ("distilbert", "distilbert"), ("minilm", "bert")):
        (folder / "config.json").write_text(json.dumps({"model_type": kind, "auto_map": classes}))
        with pytest.raises(MotionkitError):
            load_encoder(name, model=str(folder))
    assert not mark.exists()
    assert asked == []
