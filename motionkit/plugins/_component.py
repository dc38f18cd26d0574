"""The light half of a plugin, importable without torch: a `Component`, and the `Metric` of each quantity that it logs.

A component has the options, the requirements and the name of the heavy half. Metrics that all systems log are defined
in `motionkit.tracking`.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from motionkit.errors import MotionkitError
from motionkit.plugins._guard import catching, package_of

if TYPE_CHECKING:
    from pydantic import BaseModel

Direction = Literal["up", "down", "one", "none"]

FREE = "my/"
"""Names with this prefix need no definition."""

_NAME = re.compile(r"(?:[\w.:+-]|<\w+>)+(?:/(?:[\w.:+-]|<\w+>)+)*")
_PARTS = re.compile(r"(<\w+>)")
_DIGITS, _MOST_DIGITS = 3, 10
_SUPERSCRIPT = str.maketrans({"^": "", "2": "²", "3": "³"})


@dataclass(frozen=True)
class Metric:
    """One logged quantity.

    Example:
        >>> error = Metric("my/error/<ms>", "deg", "down", "Angle so far ahead.", label="error at <ms> ms", digits=1)
        >>> error.title("my/error/400"), error.shown_unit, error.text(3.14159)
        ('error at 400 ms', '°', '3.1')
    """

    name: str  # Key in metrics.jsonl; ``<...>`` matches a part or some of it, such as a reward's name
    unit: str  # Unit, or "1" for a pure number
    better: Direction  # Direction of improvement; "one" if values near 1 are best, "none" if there is no best
    meaning: str  # What is measured, and over what
    # Readable name, in which ``<...>`` is filled in from the key; by default the last part of the key.
    label: str = ""
    digits: int | None = None  # Decimals of its values in tables; None if each table chooses them by size
    short: bool = False  # Whether the results of a run may leave out the first part of its name
    # Verdicts after a fall and after a rise if no direction is better.
    words: tuple[str, str] = ("lower", "higher")
    matched: bool = False  # Whether it is best where reference motions have it, as a ratio; then `better` is "none"
    offset: bool = False  # Whether its 0 is arbitrary, as that of a score: then a change is not told in percent

    def title(self, name: str = "") -> str:
        """Return its readable name.

        Args:
            name: The logged key, with or without its first part, which fills in ``<...>`` of the label.
        """
        if not self.label:
            return (name or self.name).rpartition("/")[2]
        first = self.name.partition("/")[0]
        keys = re.findall(r"<\w+>", self.name)
        match = self.pattern.fullmatch(name) or self.pattern.fullmatch(f"{first}/{name}")
        label = self.label
        for key, part in zip(keys, match.groups() if match is not None else keys, strict=True):
            label = label.replace(key, part)
        return label

    @property
    def shown_unit(self) -> str:
        """The unit for display; empty for a pure number."""
        if self.unit == "deg":
            return "°"
        return "" if self.unit == "1" else self.unit.translate(_SUPERSCRIPT) if "^" in self.unit else self.unit

    @property
    def heading(self) -> str:
        """Title and unit, for a column heading."""
        return f"{self.title()} {self.shown_unit}".strip()

    def text(self, value: float) -> str:
        """Return a value with the decimals of tables; ``n/a`` if it is not finite."""
        return f"{value:.{_DIGITS if self.digits is None else self.digits}f}" if math.isfinite(value) else "n/a"

    @cached_property
    def fault(self) -> str:
        """What is wrong with the definition; empty if it is valid."""
        if not all(isinstance(text, str) and text for text in (self.name, self.unit, self.meaning)):
            return "name, unit and meaning are texts of at least one letter"
        if not _NAME.fullmatch(self.name):
            return "a name has letters, digits and _.:+- in parts between slashes, as in loss/mine"
        if not isinstance(self.label, str) or not (self.digits is None or self.digits in range(_MOST_DIGITS)):
            return f"label is a text, and digits a whole number below {_MOST_DIGITS} or None"
        if not isinstance(self.words, tuple) or [type(word) for word in self.words] != [str, str]:
            return "words are two texts, of a fall and of a rise"
        return "" if self.better in get_args(Direction) else f"better is one of {', '.join(get_args(Direction))}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the keys that it defines."""
        parts = _PARTS.split(self.name)
        return re.compile("".join(r"([\w.:+-]+)" if part.startswith("<") else re.escape(part) for part in parts))


_declared: dict[str, Metric] = {}


def declare(metrics: Iterable[Metric]) -> None:
    """Define metrics of a plugin for this process; the newer definition of a name wins."""
    _declared.update({metric.name: metric for metric in metrics})


def short_ones() -> list[Metric]:
    """Return the plugins' metrics with `Metric.short`."""
    return [metric for metric in _declared.values() if metric.short]


def declared(name: str) -> Metric | None:
    """Return a plugin's definition of a name, or a default one for names under ``my/``; None if there is neither."""
    if name in _declared:
        return _declared[name]
    metric = next((known for known in _declared.values() if "<" in known.name and known.pattern.fullmatch(name)), None)
    if metric is None and name.startswith(FREE) and _NAME.fullmatch(name) and "<" not in name:
        return Metric(name, "1", "none", "A figure of a plugin, which does not say more.")
    return metric


@dataclass(frozen=True)
class Component:
    """One entry of a plugin group, importable without torch."""

    summary: str  # One line for listings and help
    options: type[BaseModel]  # Settings model of the component; each field becomes a flag
    factory: str  # ``"module:attribute"`` of the heavy half, called as ``attribute(options, **runtime)``
    needs: tuple[str, ...] = ()  # Importable module names the heavy half needs beyond motionkit's dependencies
    # The pip extra that installs `needs`, named in the error if one is missing; ``PACKAGE[EXTRA]`` for one of a package
    # in ``plugins/``.
    extra: str = ""
    # Formats in which `motionkit export` writes a model of this plugin, each with the ``"module:attribute"`` of its
    # writer: ``attribute(path, folder, *, overwrite)`` returns the file and what the other tool cannot read.
    exports: Mapping[str, str] = field(default_factory=dict)
    # Type of the heavy half, a word of its kind's row in `KINDS`: a policy gives ``diffusion`` (the default),
    # ``regions``, ``actor`` or ``predictor``. A command accepts plugins of the types it can use.
    gives: str = ""
    reads: str = ""  # What a reward scores: ``motion`` (the default), ``image``, ``mask`` or ``text``
    # Whether a reward is differentiable in what it scores, so that algorithms can follow its gradient.
    gradient: bool = False
    # Name of another reward, of any package, that judges runs trained with this one by default; it is built with its
    # default options.
    twin: str = ""
    # ``"module:attribute"`` of the page of a trainer's finished runs: ``attribute(folder)`` returns HTML, which becomes
    # ``report.html`` in the run folder.
    page: str = ""
    # ``"module:attribute"`` of a `motionkit.runs.sections.Sections`: what a system adds to the pages of runs.
    sections: str = ""
    # ``"module:attribute"`` of a `motionkit.tracking.Findings`: what a system says of the results of runs.
    findings: str = ""
    # ``"module:attribute"`` of a tuple of `motionkit.page.curves.Chart`: curves of its metrics that are shown first.
    charts: str = ""
    # ``"module:attribute"`` of a tuple of `motionkit.runs.forms.ModelForm`: what the models are that it saves.
    models: str = ""
    # ``"module:attribute"`` of the commands to type next: ``attribute(info)`` returns a list of words for each, given a
    # `motionkit.runs.RunInfo`, and imports no torch. Of a trainer, those after its finished runs; of a policy, those
    # that use it in a run whose trainer names none, or that did not finish.
    next: str = ""
    # Formats of `motionkit convert` that a trainer of motionkit reads, each with the ``"module:attribute"`` of the
    # commands to type next: ``attribute(folder, to=FORMAT, captions=BOOL)``.
    converted: Mapping[str, str] = field(default_factory=dict)
    # ``"module:attribute"`` of how the policy that a run kept was chosen, for summaries without ``chosen_by``:
    # ``attribute(summary)`` returns words.
    chosen_by: str = ""
    # ``"module:attribute"`` of the search space of a trainer for `motionkit tune --bayes`: ``attribute(settings)``
    # returns a `motionkit.contracts.search.Search`, and imports no torch.
    search: str = ""
    # ``"module:attribute"`` of what adjusts a trainer's settings by the figures of a run, for `tune --metrics RUN`:
    # ``attribute(run, *, base, write_config, dry_run)`` returns the document of the command.
    adjust: str = ""
    # ``"module:attribute"`` of a `motionkit.clips.profile.document.Advisor`: settings of a trainer that suit a dataset,
    # for `motionkit profile`. It is made with ``attribute(starter=...)``: whether the starter's clips are profiled.
    advice: str = ""
    # ``"module:attribute"`` of what writes data of a trainer's runs for another tool, for `motionkit export`:
    # ``attribute(path, to, folder, console, *, fps, overwrite)`` returns the document of the command, None for a path
    # that is not its own.
    exports_data: str = ""
    # ``"module:attribute"`` of the published files that a plugin uses, for `motionkit doctor --released`:
    # ``attribute(root, config)`` returns what was found of each below a folder (release, state, path, text), and the
    # command to type when all are there.
    released: str = ""
    # Options that were added after runs had been recorded, each with the value that keeps what those did.
    later: Mapping[str, Any] = field(default_factory=dict)
    # Metrics it logs other than motionkit's and those under ``my/``, which need no definition: a tuple, or the
    # ``"module:attribute"`` of one, which imports no torch.
    metrics: tuple[Metric, ...] | str = ()

    def missing(self) -> list[str]:
        """Return the modules of `needs` that cannot be found; of ``a.b`` only ``a`` is imported."""
        return [name for name in self.needs if not _is_there(name)]

    def load(self) -> Any:
        """Import and return the heavy half."""
        return self.imported(self.factory)

    def own_metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that it defines, imported if they are named."""
        if not isinstance(self.metrics, str):
            return tuple(self.metrics)
        with catching(self.metrics.partition(":")[0]):
            return tuple(attribute_of(self.metrics))

    def page_maker(self) -> Any:
        """Import and return the function that `page` names."""
        return self.imported(self.page)

    def searched(self, settings: BaseModel) -> Any:
        """Return the search space for these settings; None if the component has none."""
        if not self.search:
            return None
        with catching(self.search.partition(":")[0]):
            return self._load(self.search)(settings)

    def after(self, info: object) -> list[list[str]]:
        """Return the commands to type after a run, each as words; none if the component names none."""
        if not self.next:
            return []
        with catching(self.next.partition(":")[0], code=1):
            return [list(words) for words in attribute_of(self.next)(info)]

    def exporter(self, to: str) -> Any:
        """Import and return the writer of a format in `exports`; None if there is no such format."""
        return self.imported(self.exports[to]) if to in self.exports else None

    def imported(self, name: str) -> Any:
        """Import and return what ``"module:attribute"`` names."""
        with catching(name.partition(":")[0]):
            return self._load(name)

    def _load(self, name: str) -> Any:
        if absent := self.missing():
            fix = install_line(self.extra) if self.extra else f"pip install {' '.join(absent)}"
            raise MotionkitError(f"{', '.join(absent)} is not installed.", why=f"{self.summary!r} needs it.", fix=fix)
        return attribute_of(name)

    def build(self, options: BaseModel, /, **runtime: Any) -> Any:
        """Import the heavy half and call it with `options` and the runtime objects of its kind."""
        factory = self.load()
        with catching(self.factory.partition(":")[0]):
            return factory(options, **runtime)


def attribute_of(name: str) -> Any:
    """Import and return what ``"module:attribute"`` names.

    Raises:
        MotionkitError: It cannot be imported.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        package = package_of(module)
        fix = f"correct or update {package}." if package else "motionkit doctor"
        raise MotionkitError(f"cannot import {name}: {error}", fix=_install_fix(error, module) or fix) from error


def _install_fix(error: BaseException, module: str) -> str:
    """Return how to install a package that an import did not find; empty if it is a module of the plugin."""
    absent = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not absent or absent == module.partition(".")[0]:
        return ""
    return f"pip install {absent}, or the package that contains that module."


def install_line(extra: str) -> str:
    """Return the command that installs an extra; in a clone of motionkit with the tested versions.

    Args:
        extra: Its name, or ``PACKAGE[EXTRA]`` for one of a package in ``plugins/``.
    """
    whole = extra if "[" in extra else f"motionkit[{extra}]"
    if (Path(__file__).parents[2] / "constraints.txt").is_file():
        place = f"plugins/{whole}" if "[" in extra else f".[{extra}]"
        return f"pip install -c constraints.txt -e '{place}' (in the folder of motionkit)"
    return f"pip install '{whole}'"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
