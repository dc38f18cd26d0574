"""A JSON document of a known kind, as a pydantic model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from motionkit.documents._json import read_json
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")


def read_model(path: Path, model: type[Model], kind: str, otherwise: str) -> Model:
    """Read a document whose ``kind`` says what it describes.

    Args:
        path: The file.
        model: What it must fit.
        kind: The ``kind`` that it must have.
        otherwise: What to say behind the kind that it has instead, such as ``" policy, not mpl"``.

    Raises:
        MotionkitError: It is missing, damaged, or describes something else.
    """
    from pydantic import ValidationError

    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != kind:
        raise MotionkitError(f"{path} describes a {str(content.get('kind'))[:40]!r}{otherwise}.")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MotionkitError(f"{path} is damaged.", why=f"{place or 'it'}: {first['msg']}.") from error
