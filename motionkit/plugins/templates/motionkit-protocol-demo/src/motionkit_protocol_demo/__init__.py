"""Protocol 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated, ClassVar

from motionkit.config import Cli
from motionkit.contracts.protocol import Argument, ProtocolSettings
from motionkit.plugins import Component, Metric
from pydantic import Field


class Settings(ProtocolSettings):
    """Measure how fast a policy's motions walk: this text is the help of ``motionkit eval demo``."""

    arguments: ClassVar[tuple[Argument, ...]] = (Argument("POLICY", "Run or policy folder.", default="starter"),)

    text: Annotated[tuple[str, ...], Cli("--text")] = Field(
        ("a person walks forward",), min_length=1, description="What to ask the policy for, repeatable."
    )
    seed: Annotated[int, Cli("--seed")] = Field(0, ge=0, description="Seed of the noise.")


component = Component(
    summary="What protocol 'demo' measures, in one line",
    options=Settings,
    factory="motionkit_protocol_demo.protocol:DemoProtocol",
    metrics=(
        Metric(
            "demo/speed", unit="m/s", better="none", meaning="Mean speed of the root.", label="root speed", digits=2
        ),
    ),
)
