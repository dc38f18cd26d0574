"""Protocol 'demo': the heavy half."""

from __future__ import annotations

from motionkit import load_policy
from motionkit.contracts.console import Console
from motionkit.contracts.protocol import Result

from motionkit_protocol_demo import Settings


class DemoProtocol:
    """An example to replace: the mean speed of the root over ground in m/s, of a motion for each text."""

    name = "demo"

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
        return Result(document, figures={"demo/speed": sum(speeds) / len(speeds)})
