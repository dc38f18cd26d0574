"""``motionkit eval KIND ...``: a model measured by a named protocol."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from motionkit.cli._command import register_command
from motionkit.predictor.commands import EVAL_MPL
from motionkit.regions.commands import EVAL_SA2VA
from motionkit.success.commands import EVAL_REWARD
from motionkit.text_to_motion.evaluation.commands import EVALS


class Kinds(TyperGroup):
    """The protocols; a model in place of a name chooses its own, and no word at all the starter's policy."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the protocol in front where it was left out."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["text-to-motion", *args]
        elif args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from motionkit.contracts.evaluation import protocol_of

            args = [protocol_of(args[0], tuple(self.commands)), *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback(cls=Kinds)
    def group() -> None:
        """Measure a model by a named protocol; without a name, by the one that suits the model.

        Example: motionkit eval runs/grpo/first
        """

    for command in (*EVALS, EVAL_MPL, EVAL_REWARD, EVAL_SA2VA):
        register_command(command, app)
