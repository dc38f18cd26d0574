"""The record of a text model in a trained model's file, which opens the same text model again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from motionkit.errors import MotionkitError
from motionkit.text._prompt import TextEncoder

Encoder = TypeVar("Encoder", bound=TextEncoder)


class TextRecord(BaseModel):
    """A text model in a trained model's description.

    Example:
        >>> record = TextRecord(encoder="clip", fingerprint="clip:12ab", model="models/clip")
        >>> TextRecord.model_validate_json(record.model_dump_json()) == record
        True
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    encoder: str = ""  # Name of the encoder
    fingerprint: str = ""  # Its fingerprint
    model: str = ""  # Folder or hub id that it was opened from; empty for the encoder's default

    @classmethod
    def of(cls, encoder: TextEncoder) -> TextRecord:
        """Describe an encoder."""
        source = getattr(encoder, "source", "")
        return cls(encoder=encoder.name, fingerprint=encoder.fingerprint, model=source)

    def require(self, encoder: TextEncoder, *, origin: str, option: str) -> None:
        """Refuse an encoder of the same name with other weights.

        Tables of embeddings are not compared, because they have no fingerprint of their model.

        Raises:
            MotionkitError: It is another model.
        """
        mine, other = proof(self.fingerprint), proof(encoder.fingerprint)
        if not mine or not other or mine == other or mine.partition(":")[0] != other.partition(":")[0]:
            return
        source = getattr(encoder, "source", "") or "the default"
        raise MotionkitError(
            f"{origin}: trained with another {encoder.name} text model than this one ({source}).",
            why=f"its text model is {self.model or 'the default'}, fingerprint {mine}; this one has fingerprint "
            f"{other}. With other weights the same words mean something else.",
            fix=f"{option} DIR with the model it was trained with; if both are the same model in different form "
            f"(such as float16), write {other} as the fingerprint of text in {origin}.",
        )

    def open(self, load: Callable[[str, bool], Encoder], chosen: str, *, origin: str, option: str) -> Encoder:
        """Open the chosen text model, else the recorded one, else the default.

        Args:
            load: Opens a folder or hub id (empty: the default); True forbids the network.
            chosen: The user's choice; empty for none.
            origin: File that holds this record.
            option: Option that names the text model.

        Raises:
            MotionkitError: It cannot be opened, or is another model.
        """
        encoder = load(chosen, False) if chosen else self._open_recorded(load, origin, option)
        self.require(encoder, origin=origin, option=option)
        return encoder

    def _open_recorded(self, load: Callable[[str, bool], Encoder], origin: str, option: str) -> Encoder:
        # A record comes from a file, which is untrusted: its model is opened from this machine and never downloaded.
        if not Path(self.model).is_absolute() or Path(self.model).is_dir():
            return load(self.model, True)
        try:
            return load("", True)
        except MotionkitError as error:
            raise MotionkitError(
                f"{origin}: its text model was {self.model}, and there is no such folder.",
                why=f"nor is there a default: {error.message}",
                fix=f"{option} DIR with the new place of that model.",
            ) from error


def proof(fingerprint: str) -> str:
    """Return a fingerprint that identifies a model; empty for that of a table."""
    return fingerprint if ":" in fingerprint else ""
