"""The Python API: what the command line calls, with names instead of flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from motionkit.config import choose_one
from motionkit.errors import MotionkitError
from motionkit.plugins import complete

if TYPE_CHECKING:
    from motionkit.clips.convert import ConvertReport
    from motionkit.clips.motion_clip import MotionClip, Motions
    from motionkit.contracts.dataset import TextMotionDataset
    from motionkit.contracts.reward import Reward
    from motionkit.runs import RunInfo
    from motionkit.text_to_motion.data.listed import Item
    from motionkit.text_to_motion.generating import TextToMotionPolicy
    from motionkit_success.environments.base import Environment


def load_policy(
    checkpoint: str | Path = "starter",
    *,
    name: str = "mdm",
    dataset: TextMotionDataset | None = None,
    device: str = "cpu",
    **options: Any,
) -> TextToMotionPolicy:
    """Load a text-to-motion policy.

    Args:
        checkpoint: ``"starter"``, a run folder, or a checkpoint file of the policy's own format.
        name: Policy plugin.
        dataset: Where the feature statistics come from when the checkpoint has none (released MDM files). Give it for
            training; without one the policy takes typed prompts too where MiniLM is not installed.
        device: ``cpu``, ``cuda``, ``cuda:1``, ...
        **options: Other options of the plugin (``motionkit plugins show policies mdm`` lists them).

    Raises:
        MotionkitError: An option or the checkpoint is refused.

    Example:
        >>> from motionkit import load_policy
        >>> policy = load_policy("starter")
        >>> policy.fps, policy.skeleton.name
        (20.0, 'humanml')
    """
    from motionkit.contracts.dataset import TextMotionDataset

    policy: TextToMotionPolicy = choose_one(
        "policies", name, {"checkpoint": str(checkpoint)} | options, typed=True
    ).build(device=device, dataset=complete(dataset, TextMotionDataset))
    return policy


def load_reward(
    name: str = "tmr-dense", *, dataset: TextMotionDataset | None = None, device: str = "cpu", **options: Any
) -> Reward:
    """Load a reward by name, such as ``load_reward("tmr-dense", alpha=0.5)``.

    Args:
        name: Reward plugin.
        dataset: Reference statistics for rewards that need them (physics).
        device: Where to score.
        **options: Options of the plugin.

    Raises:
        MotionkitError: An option or a weight file is refused.

    Example:
        >>> from motionkit import load_reward
        >>> reward = load_reward("tmr-dense", alpha=0.5)
        >>> reward.name
        'tmr-dense'
    """
    from motionkit.contracts.dataset import TextMotionDataset

    known = complete(dataset, TextMotionDataset)
    reward: Reward = choose_one("rewards", name, options, typed=True).build(device=device, dataset=known)
    return reward


def load_environment(name: str = "reach", *, num_envs: int = 1, **options: Any) -> Environment:
    """Open copies of an environment by name, such as ``load_environment("reach", num_envs=64, size=96)``.

    Args:
        name: Environment plugin.
        num_envs: Copies, which are stepped together.
        **options: Options of the plugin.

    Raises:
        MotionkitError: An option is refused, or what the environment needs is not installed.

    Example:
        >>> from motionkit import load_environment
        >>> environment = load_environment("reach", num_envs=2)
        >>> environment.cameras, environment.state_size
        ({'base_camera': (64, 64)}, 8)
    """
    environment: Environment = choose_one("environments", name, options, typed=True).build(num_envs=num_envs)
    return environment


def load_dataset(name: str | Sequence[Item] = "starter", **options: Any) -> TextMotionDataset:
    """Open a text-motion dataset by name, such as ``load_dataset("humanml", root="dataset/HumanML3D")``, or a list.

    Args:
        name: Dataset plugin; or pairs of a motion and its captions, ``[(motion, "a person walks"), ...]``. A motion is
            what `read` and a policy's ``generate`` return, or a tensor ``[T, 22, 3]`` in metres, Y up, 20 fps.
        **options: Options of the plugin; of ``humanml`` for a list.

    Raises:
        MotionkitError: An option or the data is refused.

    Example:
        >>> from motionkit import load_dataset
        >>> dataset = load_dataset("starter")
        >>> dataset.prompts("train")[0].segments
        ('someone makes a back kick with the right foot.', 'a man is waving the left hand in the air.')
    """
    if not isinstance(name, str):
        from motionkit.text_to_motion.data.listed import open_list

        return open_list(name, **options)
    dataset: TextMotionDataset = choose_one("datasets", name, options, typed=True).build()
    return dataset


@dataclass(frozen=True, repr=False)
class Run:
    """A run, as Python users have it; a notebook shows its page: result, motions before and after, curves, alarms.

    Example:
        >>> from motionkit import load_run
        >>> from motionkit.runs import open_run
        >>> with open_run("grpo", {"run": {"name": "first"}}) as run:
        ...     run.log(1, {"reward/mean": 0.5})
        ...     _ = run.finish()
        >>> run = load_run("first")
        >>> run, [line["reward/mean"] for line in run.metrics()]
        (Run('runs/grpo/first', grpo, done), [0.5])
    """

    info: RunInfo  # What is known of it

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.info.command}, {self.info.status})"

    def _repr_html_(self) -> str:
        from html import escape

        from motionkit.report.page import run_page

        # A frame of its own: the style of a page is not to change a notebook.
        page = escape(run_page(self.folder))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 760px; border: 0"></iframe>'

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.info.directory

    @property
    def config(self) -> dict[str, Any]:
        """Its settings."""
        return self.info.config

    @property
    def summary(self) -> dict[str, Any]:
        """What came out of it; empty while it goes on."""
        return self.info.summary

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl."""
        return self.info.metrics()


def load_run(name: str | Path, *, root: str | Path = "runs") -> Run:
    """Open a run that was trained here or elsewhere.

    Args:
        name: Its folder, or the last part of that below `root`.
        root: Parent of all runs.

    Raises:
        MotionkitError: There is no such run, several have that name, or it is damaged.
    """
    from motionkit.runs import find_one, load

    return Run(load(find_one(name, root).directory))


def read(
    path: str | Path,
    *,
    up: Literal["auto", "x", "-x", "y", "-y", "z", "-z"] = "auto",
    units: Literal["auto", "m", "dm", "cm", "mm", "in", "asf"] = "auto",
    source_fps: float = 0.0,
    clip: str = "",
    **settings: str | Path,
) -> MotionClip:
    """Read a motion file of any known format.

    Args:
        path: BVH, GLB (VRM and glTF with its data inside too), Unreal / MPL JSON, AMASS or SMPL npz, joints or
            features as .npy, motionkit npz, and what packages read.
        up: Direction of up in the file; ``auto`` weighs rest pose and motion of the body (docs/formats.md).
        units: Unit of BVH and GLB files and joint arrays; ``auto`` looks at the length of the legs.
        source_fps: Frames per second, also where the file says another; 0 takes its own, else 20.
        clip: Name of the animation, of a file with several.
        settings: Settings of formats that packages bring (docs/formats.md).

    Returns:
        The motion in metres, right-handed, Y up, with what the file knows of captions and splits.

    Raises:
        MotionkitError: The file is missing, damaged or in no known format, or holds several motions.

    Example:
        >>> import motionkit
        >>> from motionkit.starter import generate
        >>> import numpy as np
        >>> np.save("walk.npy", generate("walk", frames=40).joints)
        >>> motionkit.read("walk.npy").cut(10, 30).save("part.bvh")
        PosixPath('part.bvh')
    """
    found = read_all(path, up=up, units=units, source_fps=source_fps, clip=clip, **settings)
    if len(found) > 1:
        from motionkit.page.wording import joined

        names = [motion.part for motion in found if motion.part]
        raise MotionkitError(
            f"{path} holds {len(found)} motions{f': {joined(names, 20)}' if names else ''}.",
            fix=f"{'clip=NAME chooses one, ' if names else ''}motionkit.read_all(path) returns them all.",
        )
    return found[0]


def read_all(
    path: str | Path,
    *,
    up: Literal["auto", "x", "-x", "y", "-y", "z", "-z"] = "auto",
    units: Literal["auto", "m", "dm", "cm", "mm", "in", "asf"] = "auto",
    source_fps: float = 0.0,
    clip: str = "",
    **settings: str | Path,
) -> Motions:
    """Read all motions of a file, or of a folder with its sub-folders (HumanML3D and KIT folders too).

    Args:
        path: File or folder.
        up: See `read`.
        units: See `read`.
        source_fps: See `read`.
        clip: See `read`; of a folder, of each file with animations.
        settings: See `read`.

    Raises:
        MotionkitError: A file cannot be read, or there is no motion.

    Example:
        >>> import motionkit
        >>> from pathlib import Path
        >>> Path("takes").mkdir()
        >>> motions = motionkit.load_policy().generate(["walk", "jump up"], durations=[2], inference_timesteps=2)
        >>> files = [motion.save(f"takes/{number}.bvh") for number, motion in enumerate(motions)]
        >>> [motion.frames for motion in motionkit.read_all("takes")]
        [40, 40]
    """
    from motionkit.clips.convert import open_sources, refuse_idle
    from motionkit.clips.motion_clip import MotionClip, Motions
    from motionkit.formats.settings import as_texts
    from motionkit.motion import ReadOptions

    of_formats = as_texts(settings)
    options = ReadOptions(up=up, unit=units, fps=source_fps, clip=clip, settings=of_formats)
    opened = open_sources([Path(path)], options)
    if clip:
        refuse_idle(ReadOptions(clip=clip), opened.sources)
    found = [each for source in opened.sources for each in source.load()]
    for each in found:
        if each.fault is not None:
            raise each.fault
    return Motions(map(MotionClip.of, found))


def convert(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    to: str | None = None,
    fps: float = 0.0,
    captions: str | Path | None = None,
    fix: bool | str = False,
    mirror: bool = False,
    long: Literal["cut", "first", "drop"] = "cut",
    start: float = 0.0,
    end: float = 0.0,
    height: float = 0.0,
    yaw: float = 0.0,
    loop: bool = False,
    in_place: bool = False,
    floor: bool = False,
    rig: str | Path = "",
    overwrite: bool = False,
    up: Literal["auto", "x", "-x", "y", "-y", "z", "-z"] = "auto",
    units: Literal["auto", "m", "dm", "cm", "mm", "in", "asf"] = "auto",
    clip: str = "",
    jobs: int = 1,
    **settings: str | Path,
) -> ConvertReport:
    """Convert motion files or folders, the same as ``motionkit convert``.

    Args:
        inputs: Files and folders.
        out: File or folder to make; without `to` its ending decides, and a folder becomes a HumanML3D dataset.
        to: Format to write.
        fps: Frames per second to write; 0 keeps each clip's own.
        captions: CSV with a row per clip; its columns ``start`` and ``end`` are seconds of a longer recording.
        fix: Repairs: ``clean`` (True too) keeps the longest clean run of each clip, ``feet`` holds feet where they
            stand, ``jitter`` filters; joined by commas.
        mirror: Left and right swapped; datasets: also each clip's mirror image.
        long: Datasets: clips over 199 frames are cut into parts, only their first 199 are kept, or they are left out.
        start: Seconds to cut off before.
        end: Second of the clip at which it ends; 0 keeps its end.
        height: Metres that the body is tall; 0 keeps it.
        yaw: Degrees to turn it to its left.
        loop: Cut it where it can be repeated best, and bend both ends to meet.
        in_place: Take away its path over the ground.
        floor: Bring standing feet to height 0.
        rig: Bring it to a rig: ``mixamo``, ``unreal``, ``vrm``, ``smpl``, or your BVH or GLB file, or
            one that packages read.
        overwrite: Replace the file, or what an earlier conversion wrote in the folder.
        up: See `read`.
        units: See `read`.
        clip: See `read`.
        jobs: Worker processes.
        settings: See `read`.

    Returns:
        What was written, and what could not be used.

    Raises:
        MotionkitError: Nothing could be converted, or an option has no effect.

    Example:
        >>> import motionkit
        >>> (clip,) = motionkit.load_policy().generate("a person jumps", inference_timesteps=2)
        >>> motionkit.convert(clip.save("jump.bvh"), "jump.glb").frames
        40
    """
    from motionkit.clips.convert import (
        Edits,
        OutputOptions,
        open_sources,
        plan_conversion,
        read_fixes,
        read_rig,
        refuse_idle,
        run_conversion,
    )
    from motionkit.formats.settings import as_texts
    from motionkit.motion import ReadOptions, read_caption_table

    of_formats = as_texts(settings)
    paths = [Path(inputs)] if isinstance(inputs, (str, Path)) else [Path(path) for path in inputs]
    fixes = read_fixes(fix if isinstance(fix, str) else "clean" * fix)
    edits = Edits(
        start,
        end,
        fixes,
        height,
        False,
        yaw,
        loop,
        in_place,
        floor,
        read_rig(str(rig), settings=of_formats) if str(rig) else None,
    )
    options = OutputOptions(fps=fps, mirror=mirror, long=long, edits=edits, overwrite=overwrite, settings=of_formats)
    request = plan_conversion(Path(out), [str(path) for path in paths], to, options)
    reading = ReadOptions(up=up, unit=units, clip=clip, settings=of_formats)
    sources = open_sources(paths, reading).sources
    refuse_idle(reading, sources)
    table = read_caption_table(Path(captions)) if captions is not None else None
    return run_conversion(request, sources, table=table, jobs=jobs)
