"""``motionkit eval KIND ...``: a model measured by a named protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from motionkit.cli._stop import working
from motionkit.cli.commands._eval_settings import (
    CompareSettings,
    MplSettings,
    RetrievalSettings,
    RewardSettings,
    Sa2vaSettings,
    SensitivitySettings,
    TextToMotionSettings,
)
from motionkit.cli.commands._own_data import clips_of, dataset_plan, episodes_plan
from motionkit.cli.output import say
from motionkit.cli.settings import settings_command

_STARTER = "starter"


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

    @settings_command(
        app,
        TextToMotionSettings,
        name="eval text-to-motion",
        plan=lambda settings, policy, explain: dataset_plan(policy, settings.dataset),
    )
    def text_to_motion(
        settings: TextToMotionSettings,
        policy: Annotated[
            str, typer.Argument(metavar="POLICY", help="Run, policy folder or model%09d.pt; default: the starter's.")
        ] = "",
        explain: Annotated[
            bool, typer.Option("--explain", help="Print what each figure means, and exit.", metavar="")
        ] = False,
    ) -> Mapping[str, Any]:
        """Measure a policy as the field does: R-precision, MM-Dist, FID, Diversity, MultiModality, and physics.

        A folder gets a file per replication and evaluation.html. Without POLICY the starter's policy is measured.
        """
        from motionkit.cli.commands._eval_run import explained, run_text_to_motion

        if explain:
            return explained()
        say("eval text-to-motion: loading torch, data and weights")
        return run_text_to_motion(settings, policy or _STARTER)

    @settings_command(
        app,
        CompareSettings,
        name="eval compare",
        plan=lambda settings, policies: dataset_plan(policies[0], settings.dataset),
    )
    def compare(
        settings: CompareSettings,
        policies: Annotated[
            list[str], typer.Argument(metavar="POLICY...", help="Runs, policy folders, files, or starter; first: base.")
        ],
    ) -> Mapping[str, Any]:
        """Ask several policies the same prompts with the same noise, and compare each with the first.

        The interval of a difference is a bootstrap over prompts; "no difference" where it holds 0.
        """
        from motionkit.cli.commands._eval_run import run_compare

        say("eval compare: loading torch, data and weights")
        return run_compare(settings, policies)

    @settings_command(
        app,
        RetrievalSettings,
        name="eval retrieval",
        plan=lambda settings, model: dataset_plan(model, settings.dataset),
    )
    def retrieval(
        settings: RetrievalSettings,
        model: Annotated[
            str, typer.Argument(metavar="TMR", help="Run of pretrain tmr, TMR folder or file; default: the starter's.")
        ] = _STARTER,
    ) -> Mapping[str, Any]:
        """Measure a text-motion retrieval model by TMR's four protocols, both directions, both conventions of ties."""
        from motionkit.cli.commands._eval_run import tell_test_split
        from motionkit.contracts.dataset import clips_fingerprint, leave_out_clips
        from motionkit.contracts.device import resolve_device
        from motionkit.contracts.evaluation import dataset_for
        from motionkit.contracts.open_model import trained_on
        from motionkit.motion import HasActions
        from motionkit.text_to_motion.evaluation.retrieval import measure_retrieval, open_retrieval, read_nsim

        nsim = read_nsim(settings.nsim) if settings.nsim is not None else ()
        found, tmr = open_retrieval(
            model, stats=settings.stats, text_model=settings.text_model, device=resolve_device(settings.device)
        )
        chosen = dataset_for(found, settings.dataset)
        dataset = chosen.build()
        clips = dataset.clips(settings.split)
        kept = leave_out_clips(trained_on(found.path), dataset, clips)
        kept.require("clips", f"the {settings.split} split of {chosen.label}", "give --dataset with other clips.")
        clips = [clips[place] for place in kept.places]
        tell_test_split(settings.split, [found.run])
        with working("eval retrieval", len(clips)) as step:
            action = dataset.action if isinstance(dataset, HasActions) else None
            result = measure_retrieval(
                tmr, clips, threshold=settings.threshold, nsim=nsim, action=action, progress=step
            )
        notes = [*filter(None, [kept.sentence("clips")]), *result.notes]
        return {
            "model": found.path,
            "dataset": chosen.label,
            "split": settings.split,
            "inputs": {"model": tmr.fingerprint(), "dataset": clips_fingerprint(clips)},
            "candidates": result.candidates,
            "protocols": result.protocols,
            "right_action": dict(result.right_action),
            "notes": notes,
            "closing": notes,
            "table": result.table(f"{found.path}, {settings.split} split of {chosen.label}: retrieval in percent"),
        }

    @settings_command(app, SensitivitySettings, name="eval sensitivity")
    def sensitivity(settings: SensitivitySettings) -> Mapping[str, Any]:
        """Say what a reward does not see: real clips are changed, each in one way, and scored again.

        Seen is what a change costs, as a share of what an unrelated caption costs. A folder gets the figures and
        sensitivity.html.
        """
        from motionkit.cli.commands._eval_run import run_sensitivity

        say("eval sensitivity: loading torch, data and weights")
        return run_sensitivity(settings)

    @settings_command(
        app,
        MplSettings,
        name="eval mpl",
        plan=lambda settings, model: {"data": ", ".join(clips_of(model, settings.data, flag="--data"))},
    )
    def mpl(
        settings: MplSettings,
        model: Annotated[
            str, typer.Argument(metavar="MODEL", help="Run or checkpoint of a motion predictor; default: none.")
        ] = "",
    ) -> Mapping[str, Any]:
        """Measure a motion predictor, free-running and with teacher forcing, beside five baselines.

        Without MODEL the baselines are measured: hold, velocity, damped, ridge, nearest.
        """
        from motionkit.cli.commands._eval_models import run_mpl

        say("eval mpl: loading torch and data")
        return run_mpl(settings, model)

    @settings_command(
        app, RewardSettings, name="eval reward", plan=lambda settings, model, data: episodes_plan(model, data or ())
    )
    def reward(
        settings: RewardSettings,
        model: Annotated[
            str,
            typer.Argument(
                metavar="RUN",
                help="Run of reward-train, a checkpoint, or the guide's checkpoint.pt; "
                "default: the newest finished run.",
            ),
        ] = "",
        data: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="DATA...",
                help="Runs of reward-collect or folders of episodes; default: the held-out episodes of the run.",
            ),
        ] = None,
    ) -> Mapping[str, Any]:
        """Measure a success classifier: AUROC, precision, recall, calibration, and checks of what ruins a reward.

        Without DATA the run's own held-out episodes are measured again.
        """
        from motionkit.cli.commands._eval_models import run_reward

        say("eval reward: loading torch and data")
        return run_reward(settings, model, data or [])

    @settings_command(
        app,
        Sa2vaSettings,
        name="eval sa2va",
        plan=lambda settings, model, explain: dataset_plan(model, settings.dataset),
    )
    def sa2va(
        settings: Sa2vaSettings,
        model: Annotated[
            str,
            typer.Argument(
                metavar="RUN", help="Run of sa2va-rl or pretrain regions, or a policy folder; default: the starter's."
            ),
        ] = "",
        explain: Annotated[
            bool, typer.Option("--explain", help="Print what each figure means, and exit.", metavar="")
        ] = False,
    ) -> Mapping[str, Any]:
        """Measure a region policy: cIoU, gIoU, precision, METEOR, both loops closed, and absent objects.

        A run is compared with the policy that it started from, which also judges its captions.
        """
        from motionkit.cli.commands._eval_models import explained_figures, run_sa2va

        if explain:
            return explained_figures()
        say("eval sa2va: loading torch, data and weights")
        return run_sa2va(settings, model)
