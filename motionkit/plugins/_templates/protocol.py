"""A new protocol."""

from motionkit.plugins.scaffold import package

FILES = package(
    "protocol",
    usage="motionkit eval $name starter --text 'a person walks forward'",
    light='''\
"""Protocol '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated, ClassVar

from motionkit.config import Cli
from motionkit.contracts.protocol import Argument, ProtocolSettings
from motionkit.plugins import Component, Metric
from pydantic import Field


class Settings(ProtocolSettings):
    """Measure how fast a policy's motions walk: this text is the help of ``motionkit eval $name``."""

    arguments: ClassVar[tuple[Argument, ...]] = (Argument("POLICY", "Run or policy folder.", default="starter"),)

    text: Annotated[tuple[str, ...], Cli("--text")] = Field(
        ("a person walks forward",), min_length=1, description="What to ask the policy for, repeatable."
    )
    seed: Annotated[int, Cli("--seed")] = Field(0, ge=0, description="Seed of the noise.")


component = Component(
    summary="What protocol '$name' measures, in one line",
    options=Settings,
    factory="$module.protocol:$cls",
    metrics=(
        Metric(
            "$name/speed", unit="m/s", better="none", meaning="Mean speed of the root.", label="root speed", digits=2
        ),
    ),
)
''',
    code='''\
"""Protocol '$name': the heavy half."""

from __future__ import annotations

from motionkit import load_policy
from motionkit.contracts.console import Console
from motionkit.contracts.protocol import Result

from $module import Settings


class $cls:
    """An example to replace: the mean speed of the root over ground in m/s, of a motion for each text."""

    name = "$name"

    def __init__(self, settings: Settings, *, console: Console) -> None:
        self.settings = settings
        self.console = console

    def measure(self, model: str) -> Result:
        """Measure the policy that was named; figures are by the metrics of the light half."""
        policy = load_policy(model)
        speeds = []
        with self.console.working(len(self.settings.text)) as step:
            for text in self.settings.text:
                (motion,) = policy.generate(text, seed=self.settings.seed)
                root = motion.positions()[:, 0, [0, 2]]  # [T, 2] in metres
                speeds.append(float(root.diff(dim=0).norm(dim=-1).mean()) * policy.fps)
                step()
        document = {"model": model, "texts": dict(zip(self.settings.text, speeds, strict=True))}
        return Result(document, figures={"$name/speed": sum(speeds) / len(speeds)})
''',
    test='''\
"""The contract that every protocol keeps."""

from motionkit.testing import check_protocol


def test_contract() -> None:
    result = check_protocol("$name", "starter")
    assert 0.0 < result.figures["$name/speed"] < 5.0
''',
)
