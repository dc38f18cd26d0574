"""What ``motionkit eval mpl`` does: open, measure, print, and write a folder where one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.cli._stop import working
from motionkit.cli.commands._eval_settings import MplSettings
from motionkit.cli.commands._own_data import clips_of, retarget_of
from motionkit.cli.commands._test_split import tell_test_split
from motionkit.datasets.motions._content import set_fingerprint
from motionkit.errors import MotionkitError
from motionkit.evaluation._folder import claim
from motionkit.evaluation._trained_on import trained_on
from motionkit.evaluation.mpl._data import find_predictor, open_eval_data, open_predictor
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._kept import Predictions
from motionkit.evaluation.mpl._run import evaluate
from motionkit.evaluation.mpl.long._measure import LongSettings
from motionkit.policies.device import resolve_device
from motionkit.report import write_evaluation
from motionkit.trainers.base import inputs_of

_FPS = 30.0
_ROWS = 5


def run_mpl(settings: MplSettings, model: str) -> Mapping[str, Any]:
    """Measure a predictor or the baselines alone; returns the ``--json`` document with its tables."""
    if settings.out is not None:
        claim(settings.out, "mpl", overwrite=settings.overwrite)
    found = find_predictor(model) if model else None
    predictor = open_predictor(found, settings.policy, device=resolve_device(settings.device))
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
    typed = "" if settings.policy is None else str(getattr(settings.policy.options, "checkpoint", ""))
    data = open_eval_data(
        names,
        settings.split,
        fps=fps,
        past=settings.warmup,
        future=future,
        stride=settings.stride,
        train_stride=settings.train_stride,
        joints=() if predictor is None else predictor.names,
        trained=None if predictor is None else trained_on(typed if found is None else found.path),
        retarget=retarget_of(model, settings.data),
    )
    if found is not None:
        tell_test_split(settings.split, [found.run])
    rows = _ROWS + (predictor is not None)
    title = (
        f"GeoDeg in degrees, {settings.split} split of {data.clips.name}: {len(data.windows)} windows at {fps:g} fps"
    )
    kept: list[Predictions] = []
    with working("eval mpl", rows * len(data.windows)) as step:
        result = evaluate(
            data,
            predictor,
            horizons,
            command=settings.command == "path",
            seed=settings.seed,
            title=title,
            progress=step,
            keep=None if settings.out is None else kept.append,
            long=LongSettings(settings.split, settings.long) if settings.long else None,
        )
    what = {
        "model": model or (settings.policy.label if settings.policy is not None else None),
        "data": list(names),
        "split": settings.split,
        "fps": fps,
        "warmup": settings.warmup,
        "horizon": future,
        "future_command": settings.command,
        "inputs": {"data": set_fingerprint(data.clips), **inputs_of({"policy": predictor})},
    }
    if settings.out is None:
        return {**what, **result}
    document = {**what, **result}
    page = write_evaluation(settings.out, document, kept[0])
    return {**document, "page": str(page), "closing": [*result["closing"], f"page: {page}"]}
