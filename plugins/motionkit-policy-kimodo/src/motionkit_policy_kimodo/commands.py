"""The commands `motionkit kimodo-embed` and `kimodo-check`. They import no torch until they run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from motionkit.config import Cli, Place, Settings
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError
from motionkit_policy_kimodo.prompts import read_prompts


class EmbedSettings(Settings):
    """Settings of `motionkit kimodo-embed`."""

    server: Annotated[str, Cli("--server")] = Field(
        "http://127.0.0.1:9550", description="Kimodo's text-encoder server (kimodo_textencoder)."
    )
    encoder: Annotated[str, Cli("--encoder")] = Field(
        "llm2vec", min_length=1, description="Name of the encoder, stored in the table."
    )
    demo_cache: Annotated[Path | None, Cli("--demo-cache"), Place()] = Field(
        None, description="Folder of a model in the cache of Kimodo's demo; its vectors are not asked for again."
    )


def kimodo_embed(
    settings: EmbedSettings,
    console: Console,
    prompts: Annotated[Path, typer.Argument(help="Text file, CSV with the column text, or folder with meta.json.")],
    out: Annotated[Path, typer.Argument(help="The table, a .safetensors; one that is there is added to.")],
) -> Mapping[str, Any]:
    """Encode the texts of prompts with Kimodo's text encoder, once, into a table that policy and rewards read.

    Start the encoder in your Kimodo first: kimodo_textencoder. It takes 17 GB; stop it before you train.
    """
    from motionkit_policy_kimodo.embed import Server, embed
    from motionkit_policy_kimodo.texts import clean, read_demo_cache

    texts = sorted({clean(text) for asked in read_prompts(prompts) for text in asked.texts})
    stored = {} if settings.demo_cache is None else read_demo_cache(settings.demo_cache, texts)
    with console.working(len(texts), after=f"{out} has what was encoded") as step:
        asked = embed(
            texts, out, Server(settings.server), encoder=settings.encoder, stored=stored, told=lambda *_: step()
        )
    return {
        "out": str(out), "texts": len(texts), "asked": asked,
        "text": f"{out} has the vectors of all {len(texts)} texts of {prompts}; the encoder was asked {asked} times.",
    }  # fmt: skip


def _check(settings: EmbedSettings, prompts: Path, out: Path) -> None:
    read_prompts(prompts)
    if out.suffix != ".safetensors":
        raise MotionkitError(f"{out} is not a .safetensors.", fix=f"call it {out.with_suffix('.safetensors')}.")


EMBED = Command(kimodo_embed, EmbedSettings, check=_check)


class CheckSettings(Settings):
    """Settings of `motionkit kimodo-check`."""

    body: Annotated[Path | None, Cli("--body"), Place()] = Field(
        None, description="Joints of SMPL-X, for models of that body: joints.p of your Kimodo, or an SMPL-X file."
    )


def kimodo_check(
    settings: CheckSettings,
    console: Console,
    model: Annotated[str, typer.Argument(help="Folder of a Kimodo model, or its id; or a run that tuned one.")],
) -> Mapping[str, Any]:
    """Open a model of Kimodo and say what it has: names and sizes, one prediction, the gradient between its stages."""
    from motionkit_policy_kimodo.files import check, read_checkpoint

    found, finite = check(read_checkpoint(model, smplx=settings.body))
    if not finite:
        raise MotionkitError(f"{model} predicts values that are not finite.", fix="download it again.", code=1)
    return {"model": model, **found, "text": "\n".join(f"{topic}: {said}" for topic, said in found.items())}


CHECK = Command(kimodo_check, CheckSettings)
