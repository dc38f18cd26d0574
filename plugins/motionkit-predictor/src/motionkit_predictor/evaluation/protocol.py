"""The protocol of motion predictors: open the model, measure it and the baselines, write a folder with ``--out``."""

from __future__ import annotations

from motionkit.contracts.console import Console
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.contracts.evaluation import claim, tell_test_split, write_evaluation
from motionkit.contracts.open_model import trained_on
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit.training.base import inputs_of
from motionkit_predictor.data.clips import set_fingerprint
from motionkit_predictor.data.own import clips_of, retarget_of
from motionkit_predictor.evaluation.data import find_predictor, open_eval_data, open_predictor
from motionkit_predictor.evaluation.kept import FILE, Predictions
from motionkit_predictor.evaluation.long.measure import LongSettings
from motionkit_predictor.evaluation.measure import Horizons
from motionkit_predictor.evaluation.pages import evaluation_page
from motionkit_predictor.evaluation.run import evaluate
from motionkit_predictor.evaluation.settings import MplSettings

_FPS = 30.0
_ROWS = 5


class Mpl:
    """``eval mpl``."""

    name = "mpl"

    def __init__(self, settings: MplSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, model: str) -> Result:
        """Measure a predictor, or the baselines alone if `model` is empty."""
        settings, console = self.settings, self.console
        if settings.out is not None:
            claim(settings.out, "mpl", overwrite=settings.overwrite)
        located = find_predictor(model) if model else None
        device = resolve_device(settings.device)
        set_threads(settings.threads, device, small=False)
        predictor = open_predictor(located, settings.policy, device=device)
        fps = settings.fps or (_FPS if predictor is None else predictor.fps)
        if predictor is not None and fps != predictor.fps:
            raise MotionkitError(
                f"--fps {fps:g} does not fit: the predictor was made for {predictor.fps:g}.", fix="leave --fps out."
            )
        horizons = Horizons.at(settings.horizons, fps)
        future = settings.horizon or horizons.last
        if future < horizons.last:
            raise MotionkitError(
                f"--horizon {future} ends before {max(settings.horizons):g} ms, which is frame {horizons.last}.",
                fix="leave --horizon out, or ask for nearer --horizons.",
            )
        names = clips_of(model, settings.data, flag="--data")
        typed = "" if settings.policy is None else str(settings.policy.get("checkpoint", ""))
        data = open_eval_data(
            names,
            settings.split,
            fps=fps,
            past=settings.warmup,
            future=future,
            stride=settings.stride,
            train_stride=settings.train_stride,
            joints=() if predictor is None else predictor.names,
            trained=None if predictor is None else trained_on(typed if located is None else located.path),
            retarget=retarget_of(model, settings.data),
        )
        if located is not None:
            tell_test_split(settings.split, [located.run], console)
        rows = _ROWS + (predictor is not None)
        where = f"{settings.split} split of {data.clips.name}: {len(data.windows)} windows at {fps:g} fps"
        kept: list[Predictions] = []
        with console.working(rows * len(data.windows)) as step:
            result = evaluate(
                data,
                predictor,
                horizons,
                command=settings.command == "path",
                seed=settings.seed,
                title=f"GeoDeg in degrees, {where}",
                progress=step,
                keep=None if settings.out is None else kept.append,
                long=LongSettings(settings.split, settings.long) if settings.long else None,
            )
        conditions = {
            "model": model or (settings.policy.label if settings.policy is not None else None),
            "data": list(names),
            "split": settings.split,
            "fps": fps,
            "warmup": settings.warmup,
            "horizon": future,
            "future_command": settings.command,
            "inputs": {"data": set_fingerprint(data.clips), **inputs_of({"policy": predictor})},
        }
        tables, closing = result.pop("table"), result.pop("closing")
        document = {**conditions, **result}
        measured = Result(document, tables=tables, closing=closing)
        if (out := settings.out) is None:
            return measured
        (predictions,), shown = kept, {**document, "table": tables, "closing": closing}
        return write_evaluation(
            out,
            "mpl",
            measured,
            lambda: evaluation_page(shown, predictions),
            beside=lambda: predictions.save(out / FILE),
        )
