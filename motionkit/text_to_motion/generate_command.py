"""``motionkit generate``: motions from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.config import Chosen, Cli, Settings, choose_from_file, slot
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError
from motionkit.formats import FORMATS, WriteOptions, kind_of, refuse_existing, refuse_foreign
from motionkit.formats.settings import FormatSettings, with_format_settings
from motionkit.formats.table import endings, listed
from motionkit.page.wording import count
from motionkit.plugins import either
from motionkit.runs import made_by
from motionkit.text_to_motion.evaluation.folder import motions_folder
from motionkit.text_to_motion.settings import PromptSettings, SamplerSettings
from motionkit.text_to_motion.typed import STDIN, list_prompts, read_prompts, read_seconds, refuse_loose_words

if TYPE_CHECKING:
    import torch

    from motionkit.clips.convert import ConvertReport, Edits
    from motionkit.contracts.dataset import TextMotionDataset
    from motionkit.motion.corpus.ids import Split
    from motionkit.text import Prompt
    from motionkit.text_to_motion.blocks import Seams
    from motionkit.text_to_motion.policy import DiffusionPolicy
    from motionkit.text_to_motion.wording import Reading

_STARTER = "starter"

PORT = 8420

EXPORTS = tuple(form.name for form in listed("bvh", "glb", "html", "mp4", "gif", "mpl", "npz", "amass"))

_RIGS = [form.name.upper() for form in listed("bvh", "glb", what="reader") if form.reader and form.reader.rig]


class AskedPrompts(PromptSettings):
    """Which prompts of a dataset are asked, where there is no TEXT."""

    split: Annotated[Literal["train", "val", "test"] | None, Cli("--split")] = Field(
        None, description="Split of the prompts; default: test, or the last one that composite data have."
    )
    limit: Annotated[int, Cli("--limit")] = Field(
        16, ge=0, description="How many prompts, from the first on; 0 takes all."
    )


class GenerateSampler(SamplerSettings):
    """How the policy is sampled."""

    guidance_scale: Annotated[float | None, Cli("--guidance-scale")] = Field(  # type: ignore[assignment]
        None, ge=0, description="Classifier-free guidance; 1 is off; default: the policy's own, else 2.5."
    )
    kind: Annotated[Literal["ddpm", "ddim"] | None, Cli("--sampler")] = Field(
        None,
        description="ddpm: ancestral, as MDM generates; ddim: deterministic, good with fewer steps; default: the "
        "policy's own.",
    )
    eta: float = Field(0.0, ge=0, le=1, description="Noise of ddim.")
    inference_timesteps: Annotated[int, Cli("--inference-timesteps")] = Field(
        0, ge=0, le=10_000, description="Sampling steps; 0: the policy's own number, else all that it was trained with."
    )
    spacing: Literal["early", "even"] | None = Field(  # type: ignore[assignment]
        None,
        description="Timesteps visited: early is densest at the noisy end, where a motion is decided; default: early "
        "for the policy's own number of steps, even for another.",
    )


@with_format_settings("Files", writing=True)
class _NamedFiles(FormatSettings):
    """Rate, names and rig of files."""

    fps: Annotated[float, Cli("--fps", "Files")] = Field(0.0, ge=0, description="Rate of files; 0: the policy's own.")
    names: Annotated[str, Cli("--names", "Files")] = Field(
        "", description=f"Names and rig of files: mixamo, unreal, vrm, smpl, or your own {either(_RIGS)} file."
    )


class FileSettings(_NamedFiles):
    """What is done to motions in files and in the page; the arrays of a folder stay what the policy made."""

    loop: Annotated[bool, Cli("--loop", "Files")] = Field(
        False, description="Cut motions where they can be repeated best, and bend both ends to meet."
    )
    in_place: Annotated[bool, Cli("--in-place", "Files")] = Field(
        False, description="Take away the path over the ground."
    )
    fix: Annotated[str, Cli("--fix", "Files")] = Field(
        "", description="Repairs: feet (held where they stand), jitter (filtered); joined by commas."
    )


class GenerateSettings(Settings):
    """Settings of `motionkit generate`."""

    policy: Chosen = slot("policies", "mdm", gives="diffusion")
    dataset: Chosen | None = slot(
        "datasets",
        None,
        description="Dataset whose prompts are asked, instead of TEXT.",
        gives=("text-motion", "composite"),
    )
    prompts: AskedPrompts = AskedPrompts()
    sampler: GenerateSampler = GenerateSampler()
    files: FileSettings = FileSettings()
    num_samples: Annotated[int, Cli("--num-samples", panel="Sampler")] = Field(
        default=1, ge=1, le=10_000, description="Motions per text."
    )
    batch_size: Annotated[int, Cli("--batch-size", panel="Sampler")] = Field(
        default=64, ge=1, le=10_000, description="Motions sampled at once; lower it when memory runs out."
    )
    seed: Annotated[int, Cli("--seed", panel="Sampler")] = Field(default=0, ge=0, description="Seed of the noise.")
    device: Annotated[str, Cli("--device")] = Field(default="auto", description="auto, cpu, mps, cuda, cuda:N or N.")
    threads: Annotated[int, Cli("--threads")] = Field(
        default=0, ge=0, le=1024, description="CPU threads; 0 leaves the choice to torch."
    )

    def place(self) -> torch.device:
        """Return the device, and set the threads."""
        from motionkit.contracts.device import resolve_device, set_threads

        device = resolve_device(self.device)
        set_threads(self.threads, device, small=False)
        return device


def generate(
    settings: GenerateSettings,
    console: Console,
    *,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="What to do; ' | ' separates actions. - reads prompts from stdin, one a line. Leave it out with "
            "--dataset or --prompts.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            help=f"Folder to make; or one {either(endings('bvh', 'glb', 'html', 'mp4', 'gif', 'npz', 'joints'))}.",
            show_default=False,
        ),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="File with one prompt a line.")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="FORMAT", help=f"Also write OUT/FORMAT/ID.*: {', '.join(EXPORTS)}; repeatable."),
    ] = None,
    durations: Annotated[
        str,
        typer.Option(
            "--durations",
            metavar="S,S",
            help="Seconds of each action; default: 6 s shared equally, less for what is done once.",
        ),
    ] = "",
    as_typed: Annotated[
        bool,
        typer.Option(
            "--as-typed",
            help="Do not read TEXT as the known caption that says the same, for a policy that knows its captions.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier generate wrote in OUT; other files stay.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Instead of writing files, serve a page with a prompt box and the player, on this machine alone.",
        ),
    ] = False,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of --serve; 0 takes one that is free.")
    ] = PORT,
    listing: Annotated[
        bool,
        typer.Option(
            "--list-prompts",
            help="Print what the starter policy can do, and exit.",
            metavar="",
            is_eager=True,
            callback=list_prompts,
        ),
    ] = False,
) -> Mapping[str, Any]:
    """Make motions from texts, or from the prompts of a dataset.

    A folder gets joints, features, motions.json and motions.html, a page that plays them; --to adds further
    formats, in files that are called after their prompt. Rotations for bvh, glb and mpl are solved from the joints;
    -v prints the fit. A motion that is longer than the policy makes at once is joined of blocks that overlap by a
    second; a table says how well they meet.

    The starter policy reads each text as the caption of its training that says the same: "he walks backwards" as "a
    person walks backward". What it reads, which words it does not follow, and which texts it does not know is said
    here, in motions.json and on the page.
    """
    if serve:
        return _serve(settings, console, port, as_typed=as_typed)
    assert out is not None, "the check refuses it"
    from motionkit.clips.motion_clip import save_clips
    from motionkit.text_to_motion.blocks import Seams
    from motionkit.text_to_motion.evaluation.export import export_motions, noted, require_bodies, require_places
    from motionkit.text_to_motion.evaluation.export import generate as write_motions
    from motionkit.text_to_motion.generating import generate_with_seams, plan_steps, read_texts
    from motionkit.text_to_motion.policy import guidance_of

    settings = _with_own_prompts(settings, texts or [], prompts, out)
    seconds, edits = read_seconds(durations, name="--durations"), _edits(settings.files)
    typed = read_prompts(texts or [], prompts, console.say) if settings.dataset is None else []
    dataset = settings.dataset.build() if settings.dataset is not None else None
    policy: DiffusionPolicy = settings.policy.build(device=settings.place(), dataset=dataset)
    asked: Sequence[Prompt]
    readings: Mapping[str, Reading] = {}
    split = None
    if dataset is None:
        asked, readings = read_texts(policy, typed, seconds, as_typed=as_typed)
        _tell(console, readings)
    else:
        split, asked = _asked(settings, console, dataset, policy)
    sampler = settings.sampler
    plan = plan_steps(policy, sampler.kind, sampler.inference_timesteps, sampler.eta, sampler.spacing)
    kinds = _kinds(to or [], out)
    total = len(asked) * settings.num_samples
    require_bodies(policy, [kind] if (kind := kind_of(out)) else kinds, fps=settings.files.fps, edits=edits)
    require_places(out, kinds, total, overwrite=overwrite)
    how: dict[str, Any] = {
        "samples": settings.num_samples,
        "guidance": guidance_of(policy) if sampler.guidance_scale is None else sampler.guidance_scale,
        "seed": settings.seed,
        "batch": settings.batch_size,
    }
    if kind_of(out) is not None:
        made = []
        with console.working(total) as step:
            for pair in generate_with_seams(policy, asked, plan, **how):
                made.append(pair)
                step(1)
        every = [prompt for prompt in asked for _ in range(settings.num_samples)]
        clips = [noted(clip, prompt, readings) for (clip, _), prompt in zip(made, every, strict=True)]
        seams = [item for _, item in made]
        writing = WriteOptions(settings=settings.files.of_formats())
        report = save_clips(clips, out, fps=settings.files.fps, options=writing, edits=edits, overwrite=overwrite)
        _say_written(report, out, console)
        fps = settings.files.fps or policy.fps
        measured = [item for item in seams if item is not None]
        written = {"out": str(out), "fps": fps, "frames": report.frames, "figures": report.figures}
        more: dict[str, Any] = {"seams": [item and item.document() for item in seams]} if measured else {}
        if said := {text: found for text, reading in readings.items() if (found := reading.document())}:
            more["texts"] = said
        return {**written, **more, "table": [*_table(report), *_seam_table(measured, total)]}
    facts = {
        "sampler": {**sampler.model_dump(mode="json"), "kind": sampler.kind or policy.sampler},
        "policy": settings.policy.options.model_dump(mode="json"),
        "dataset": _origin(settings, split) if dataset is not None else None,
    }
    with console.working(total) as step:
        motions = write_motions(
            policy, asked, out, plan, **how, readings=readings, facts=facts, overwrite=overwrite, progress=step
        )
    told = settings.files.of_formats()
    reports = export_motions(out, kinds, fps=settings.files.fps, edits=edits, overwrite=overwrite, settings=told)
    for kind, report in reports.items():
        _say_written(report, out / kind, console)
    console.say(f"wrote {count(len(motions), 'motion')} to {out}; open {out / 'motions.html'} to see them")
    figures = {kind: report.figures for kind, report in reports.items()}
    table = [row for report in reports.values() for row in _table(report)][:1]
    table += _seam_table([Seams(**motion["seams"]) for motion in motions if "seams" in motion], total)
    return {"out": str(out), "fps": policy.fps, "motions": motions, "exports": figures, "table": table}


def _tell(console: Console, readings: Mapping[str, Reading]) -> None:
    """Say of each text what it is read as, or that it is not known."""
    for reading in readings.values():
        if not reading.caption:
            console.warn(reading.sentence)
        elif reading.changed:
            console.say(reading.sentence)
    if not all(reading.caption for reading in readings.values()):
        console.say("motionkit generate --list-prompts prints what the starter policy knows")


def _serve(settings: GenerateSettings, console: Console, port: int, *, as_typed: bool) -> Mapping[str, Any]:
    """Serve the page until the command is stopped."""
    from motionkit.text_to_motion.generating import plan_steps
    from motionkit.text_to_motion.policy import guidance_of
    from motionkit.text_to_motion.serve import Studio, serve

    def open_studio() -> tuple[Studio, Mapping[str, Any]]:
        policy: DiffusionPolicy = settings.policy.build(device=settings.place(), dataset=None)
        sampler = settings.sampler
        plan = plan_steps(policy, sampler.kind, sampler.inference_timesteps, sampler.eta, sampler.spacing)
        studio = Studio(policy, plan, fps=settings.files.fps, edits=_edits(settings.files), as_typed=as_typed)
        guidance = guidance_of(policy) if sampler.guidance_scale is None else sampler.guidance_scale
        place = str(settings.policy.get("checkpoint", ""))
        title = f"{settings.policy.name}: {place}" if place else settings.policy.name
        return studio, {"title": title, "guidance": guidance, "seed": settings.seed}

    serve(open_studio, port, console)
    return {}


def _refuse_for_serve(settings: GenerateSettings, given: Mapping[str, object]) -> None:
    """Refuse what says which motions are made or where they go: the page does."""
    given = {
        **given,
        "--dataset": settings.dataset,
        "--num-samples": settings.num_samples != 1,
        "--split, --k-segments, --limit": settings.prompts != AskedPrompts(),
    }
    if names := [name for name, value in given.items() if value]:
        raise MotionkitError(
            f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect with --serve.",
            why="what to make, and which file is wanted, is said on the page.",
            fix=f"leave {'it' if len(names) == 1 else 'them'} out.",
        )


def _edits(files: FileSettings) -> Edits:
    """Return what is done to the motions in files."""
    from motionkit.clips.convert import Edits, read_fixes, read_rig

    fixes = read_fixes(files.fix)
    if "clean" in fixes:
        raise MotionkitError("--fix clean does not act on what a policy makes.", fix="feet, jitter or both.")
    rig = read_rig(files.names, settings=files.of_formats(), flag="--names") if files.names else None
    return Edits(fixes=fixes, rig=rig, loop=files.loop, in_place=files.in_place)


def _table(report: ConvertReport) -> list[dict[str, Any]]:
    """Return a table of what was changed; none where nothing was."""
    from motionkit.clips.convert import edit_rows

    rows = edit_rows(report.figures)
    return [{"title": "what was changed", "columns": ("", ""), "rows": rows}] if rows else []


def _seam_table(seams: Sequence[Seams], count: int) -> list[dict[str, Any]]:
    """Return a table of the seams of motions that were joined of blocks, of `count`; none where there are none."""
    from motionkit.text_to_motion.blocks import seam_rows

    return [{"title": "seams of blocks", "columns": ("", ""), "rows": seam_rows(seams, count)}] if seams else []


def _kinds(to: Sequence[str], out: Path) -> list[str]:
    """Return the formats to write beside the motions."""
    from motionkit.clips.convert import no_kind

    if to and kind_of(out) is not None:
        raise MotionkitError("--to needs a folder as OUT.", why=f"{out} is a single file.")
    if unknown := [name for name in to if name not in EXPORTS]:
        raise no_kind(unknown[0], EXPORTS)
    return list(to)


def _say_written(report: ConvertReport, out: Path, console: Console) -> None:
    """Say what was written, with the fit of solved rotations where it is worth a word or ``-v`` was given."""
    from motionkit.clips.convert import fit_text

    fit = fit_text(report, always=console.verbose)
    console.say(f"wrote {out}{f' ({fit})' if fit else ''}")
    for text in report.warnings:
        console.warn(text)


def _with_own_prompts(
    settings: GenerateSettings, texts: Sequence[str], file: Path | None, out: Path
) -> GenerateSettings:
    """Return the settings with the dataset of the policy's run, where neither texts nor a dataset were given.

    An OUT with a space is a text whose folder is missing: the settings stay as they are, and `_refuse_both` refuses it.
    """
    if settings.dataset is not None or texts or file is not None or " " in str(out):
        return settings
    path = str(settings.policy.get("checkpoint", ""))
    run = made_by(path) if path not in ("", _STARTER) else None
    dataset = choose_from_file("datasets", run.config.get("dataset")) if run is not None else None
    if dataset is None or dataset.name == _STARTER:
        return settings
    return settings.model_copy(update={"dataset": dataset})


def _refuse_both(
    settings: GenerateSettings, texts: Sequence[str], file: Path | None, durations: str, out: Path, *, as_typed: bool
) -> None:
    """Refuse texts beside a dataset, neither of them, and options of the other way to ask."""
    if settings.dataset is None and not texts and file is None:
        raise MotionkitError(
            "there is nothing to generate: no TEXT was given, and no --dataset.",
            why=f"the last word is the folder to make: {out}.",
            fix='motionkit generate "a person walks forward" OUT, or motionkit generate --dataset NAME OUT',
        )
    if settings.dataset is not None and (texts or file):
        given = f"TEXT ({texts[0]!r})" if texts else f"--prompts {file}"
        raise MotionkitError(
            f"{given} and --dataset {settings.dataset.label} were both given.",
            why="motions are made either from texts or from the prompts of a dataset.",
            fix="leave one of them out; the feature statistics of a checkpoint are given with --policy.stats DIR.",
        )
    if settings.dataset is not None and as_typed:
        raise MotionkitError(
            "--as-typed has no effect with --dataset.", why="its prompts are never reworded.", fix="leave it out."
        )
    if settings.dataset is not None and durations:
        raise MotionkitError(
            "--durations has no effect with --dataset.", why="its prompts have lengths.", fix="leave --durations out."
        )
    if settings.dataset is None and settings.prompts != AskedPrompts():
        raise MotionkitError(
            "--split, --k-segments and --limit choose among the prompts of a dataset, and there is none.",
            fix="add --dataset NAME, or leave them out.",
        )


def _check_generate(
    settings: GenerateSettings,
    texts: Sequence[str] | None,
    out: Path | None,
    prompts: Path | None,
    durations: str,
    to: Sequence[str] | None,
    as_typed: bool,
    overwrite: bool,
    serve: bool,
    port: int,
    **_: object,
) -> None:
    """Refuse what needs no policy to be seen, of a dry run too."""
    if serve:
        given = {"--prompts": prompts, "--durations": durations, "--to": to, "--overwrite": overwrite}
        _refuse_for_serve(settings, {"TEXT": texts, f"{str(out)!r}": out, **given})
        _refuse_reference(settings)
        _edits(settings.files)
        return
    if port != PORT:
        raise MotionkitError("--port has no effect without --serve.", fix="add --serve, or leave it out.")
    if out is None:
        raise MotionkitError(
            "there is no OUT, the folder or file to write.",
            fix='motionkit generate "a person walks forward" OUT; or motionkit generate --serve, for a page.',
        )
    refuse_loose_words(texts or [], out)
    settings = _with_own_prompts(settings, texts or [], prompts, out)
    _refuse_both(settings, texts or [], prompts, durations, out, as_typed=as_typed)
    if (texts or []).count(STDIN) > 1:
        raise MotionkitError("stdin can be read once.", fix=f"give {STDIN} once.")
    _refuse_reference(settings)
    refuse_foreign(out)
    if kind_of(out) is not None:
        refuse_existing(out, overwrite=overwrite)
    else:
        motions_folder(out, overwrite=overwrite)
    for kind in [kind for kind in (kind_of(out), *(to or [])) if kind in FORMATS]:
        FORMATS[str(kind)].require(settings.files.of_formats())
    read_seconds(durations, name="--durations")
    _edits(settings.files)


def _refuse_reference(settings: GenerateSettings) -> None:
    if settings.policy.get("reference", ""):
        raise MotionkitError(
            "--reference has no effect in generate.", why="it is what training measures KL to.", fix="leave it out."
        )


def _origin(settings: GenerateSettings, split: Split | None) -> dict[str, Any]:
    """Return where the prompts come from, for motions.json: with the ids of prompts, what they were is found again."""
    assert settings.dataset is not None
    return {
        "name": settings.dataset.name,
        **settings.dataset.options.model_dump(mode="json"),
        "split": split,
        "k_segments": settings.prompts.k_segments,
    }


def _asked(
    settings: GenerateSettings, console: Console, dataset: TextMotionDataset, policy: DiffusionPolicy
) -> tuple[Split, Sequence[Prompt]]:
    """Return the split that is asked, and its prompts."""
    from motionkit.text_to_motion.evaluation.judge import require_rate

    chosen = settings.prompts
    splits = dataset.splits or ("train", "val", "test")
    split = chosen.split or ("test" if "test" in splits else splits[-1])
    every = dataset.prompts(split, k_segments=chosen.k_segments, seed=settings.seed)
    asked = every[: chosen.limit or None]
    if not asked:
        raise MotionkitError(f"the {split} split of {dataset.name} has no prompts.", fix="choose another with --split.")
    require_rate(policy, fps=dataset.fps, label=dataset.name)
    console.say(
        f"{len(asked)} of {len(every)} prompts of the {split} split" + ("" if chosen.limit == 0 else " (--limit)")
    )
    return split, asked


GENERATE = Command(generate, GenerateSettings, check=_check_generate)
