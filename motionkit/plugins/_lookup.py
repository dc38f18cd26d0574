"""Look up plugins: the `Component` of a name, and the plugins that fit a slot.

If there is no such plugin, the error gives the reason. A plugin fits a slot if it gives what the command accepts, and
reads what the command produces.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError, did_you_mean
from motionkit.plugins._component import Component, Metric, declare
from motionkit.plugins._discovery import HOME, INSTALL_FIX, KINDS, OBJECTS, Entry, either, normalise, scan
from motionkit.plugins._guard import claim, in_words, is_stop

if TYPE_CHECKING:
    from pydantic import BaseModel

_logger = logging.getLogger("motionkit.plugins")

NOT_INSTALLED = "motionkit is not installed, so its plugins cannot be found."


def available(kind: str) -> list[Entry]:
    """Return the entries of `kind` without importing any of them.

    Args:
        kind: A name in `KINDS`, such as ``rewards``.

    Example:
        >>> [entry.name for entry in available("policies") if entry.builtin]
        ['mdm', 'mpl', 'sa2va', 'tiny-sa2va']
    """
    if kind not in KINDS:
        raise MotionkitError(f"there is no plugin kind {kind!r}.", fix=f"one of: {', '.join(KINDS)}", choices=KINDS)
    installed = scan()
    if not any(entry.builtin for entry in installed.entries) and not any(
        b.distribution == HOME for b in installed.broken
    ):
        raise MotionkitError(NOT_INSTALLED, fix=INSTALL_FIX)
    return installed.of(kind)


def get(kind: str, name: str, *, typed: bool = False) -> Component:
    """Return the component called `name`; imports its light half.

    Every lookup of a plugin ends here, and so does the rule for code: ``./file.py:attribute`` runs only if the user
    typed it or wrote it in Python. A settings file, a run folder or a model folder may come from anywhere.

    Args:
        kind: A name in `KINDS`, such as ``rewards``.
        name: ``NAME``, ``DISTRIBUTION:NAME``, or ``./file.py:attribute`` for code without a package.
        typed: Whether the name was typed, in a command or in Python, so that a Python file may run.

    Example:
        >>> get("rewards", "physics").summary
        "Foot skate and jerk against the dataset's medians"
    """
    if is_file(name):
        if not typed:
            raise code_error("the file", name, ["--" + KINDS[kind].singular, name])
        component, builtin = _from_file(kind, name), False
    else:
        entry = find(kind, name)
        component, builtin = _load(entry), entry.builtin
    if not builtin:  # theirs: `builtin_metrics`
        declare(component.own_metrics())
    return component


def recorded(kind: str, name: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a run recorded for a plugin, with those that were added later (`Component.later`)."""
    later: Mapping[str, Any] = {}
    if isinstance(name, str) and not is_file(name):
        with suppress(MotionkitError):  # it may be gone
            later = get(kind, name).later
    return {**later, **options}


def named(field: str, *others: Component) -> list[Any]:
    """Return what motionkit's own plugins name in a field, each once, then what `others` do.

    Args:
        field: A field of `Component` that holds ``"module:attribute"``, such as ``sections``.
        others: Components of other packages.
    """
    found: dict[str, Component] = {}
    for component in (*own(*KINDS), *others):
        if name := getattr(component, field):
            found.setdefault(name, component)
    return [component.imported(name) for name, component in found.items()]


def trainer_of(command: str) -> Component | None:
    """Return the component of the trainer that a run is of; None if it is not installed."""
    name = command.replace(" ", ".")
    known = any(entry.name == name for entry in available("trainers"))
    return get("trainers", name) if known else None


@lru_cache
def builtin_metrics() -> Mapping[str, Metric]:
    """Return the metrics that motionkit's own plugins define, by name; imports their light halves."""
    return {metric.name: metric for component in own(*KINDS) for metric in component.own_metrics()}


def own(*kinds: str) -> list[Component]:
    """Return the components of motionkit's own plugins of some kinds."""
    return [_load(entry) for kind in kinds for entry in available(kind) if entry.builtin]


def find(kind: str, name: str) -> Entry:
    """Return the one entry called `name` (``NAME`` or ``DISTRIBUTION:NAME``) without importing it.

    A name that motionkit uses means motionkit's plugin; `hidden` lists others with that name.
    """
    entries = available(kind)
    distribution, _, bare = name.rpartition(":")
    matches = [entry for entry in entries if entry.name == bare and (not distribution or _is_of(entry, distribution))]
    if not matches:
        raise _unknown(kind, name, entries)
    if len(matches) == 1 or matches[0].builtin:  # built-ins come first
        return matches[0]
    owners = ", ".join(f"{entry.distribution} {entry.version}" for entry in matches)
    raise MotionkitError(
        f"{len(matches)} packages bring {KINDS[kind].singular} {bare!r}: {owners}.",
        why="both packages register the same name.",
        fix=f"choose one: {' or '.join(f'{entry.distribution}:{bare}' for entry in matches)}",
    )


def _is_of(entry: Entry, distribution: str) -> bool:
    """Whether a plugin is of a package; ``motionkit`` stands for its own packages, too."""
    return normalise(entry.distribution) == normalise(distribution) or (distribution == HOME and entry.builtin)


def hidden() -> dict[Entry, str]:
    """Return the entries whose name means a built-in, each with a warning."""
    builtin = {(entry.kind, entry.name) for entry in scan().entries if entry.builtin}
    return {
        entry: f"{KINDS[entry.kind].singular} {entry.name!r} means the one of {HOME}; package {entry.distribution!r} "
        f"brings another one, {entry.distribution}:{entry.name}"
        for entry in scan().entries
        if not entry.builtin and (entry.kind, entry.name) in builtin
    }


def warn_hidden(kind: str, name: str) -> None:
    """Log a warning if `name` means a built-in and another package uses the name too."""
    for entry, text in hidden().items():
        if (entry.kind, entry.name) == (kind, name):
            _logger.warning("%s", text)


def gives_of(kind: str, component: Component) -> str:
    """Return what a component gives: its word, or the first of its kind."""
    return component.gives or next(iter(KINDS[kind].gives), "")


def check_of(kind: str, component: Component) -> str:
    """Return the contract check of a component as ``module:function``; empty if its kind has none."""
    return KINDS[kind].checks.get(gives_of(kind, component), KINDS[kind].check)


def reads_of(kind: str, component: Component) -> str:
    """Return what a component reads: its word, or the first of its kind; empty if the kind reads nothing."""
    return component.reads or next(iter(KINDS[kind].reads), "")


def fitting(kind: str, *, gives: Collection[str] = (), reads: Collection[str] = (), certain: bool = False) -> list[str]:
    """Return the names of the plugins that a slot may hold, for help and for messages.

    Built-ins are imported to see what they give. Other packages are not, since help must not run code that may hang or
    exit: their plugins are listed, and `require_fit` refuses those that do not fit.

    Args:
        kind: A name in `KINDS`.
        gives: What the slot accepts; empty for everything.
        reads: What the slot's plugins may read; empty for everything.
        certain: Whether plugins that are not imported yet are left out.
    """
    return list(dict.fromkeys(entry.name for entry in available(kind) if _may_fit(entry, gives, reads, certain)))


def require_fit(
    kind: str,
    name: str,
    *,
    gives: Collection[str] = (),
    reads: Collection[str] = (),
    slot: str = "",
    typed: bool = False,
) -> None:
    """Refuse a plugin that a slot cannot use."""
    component = get(kind, name, typed=typed)
    if _fits(kind, component, gives, reads):
        return
    row = KINDS[kind]
    wrong = bool(gives) and gives_of(kind, component) not in gives
    verb, word, accepted = (
        ("gives", gives_of(kind, component), gives) if wrong else ("reads", reads_of(kind, component), reads)
    )
    expectation = f"{slot} takes" if slot else "what is needed is"
    fit = ", ".join(fitting(kind, gives=gives, reads=reads, certain=True))
    raise MotionkitError(
        f"{row.singular} {name!r} {verb} {word!r}; {expectation} one that {verb} {either(map(repr, accepted))}.",
        fix=f"choose one that fits: {fit}" if fit else f"no installed {row.singular} fits.",
    )


def _may_fit(entry: Entry, gives: Collection[str], reads: Collection[str], certain: bool) -> bool:
    if not (gives or reads):
        return True
    if not (entry.builtin or entry.value.partition(":")[0] in sys.modules):
        return not certain
    try:
        component = get(entry.kind, f"{entry.distribution}:{entry.name}")
    except MotionkitError:  # reported when it is chosen
        return True
    return _fits(entry.kind, component, gives, reads)


def _fits(kind: str, component: Component, gives: Collection[str], reads: Collection[str]) -> bool:
    return (not gives or gives_of(kind, component) in gives) and (not reads or reads_of(kind, component) in reads)


class CodeError(MotionkitError):
    """A settings file, a run or a model names a Python file that was not typed."""

    words: Sequence[str] = ()  # Flags and values to type to allow it


def code_error(source: str, name: str, words: Sequence[str]) -> CodeError:
    """Return the error for a Python file that was not typed."""
    error = CodeError(
        f"{source} names {name}, which is code.",
        why="a Python file runs only when its name has been typed, not because a settings file or a run names it.",
        fix=f"if you trust that file, add to the command: {shlex.join(words)}",
    )
    error.words = words
    return error


def is_file(name: str) -> bool:
    """Whether `name` has the form ``./file.py:attribute``."""
    return ".py:" in name or name.endswith(".py")


def is_own(kind: str, name: str) -> bool:
    """Whether `name` means a plugin of motionkit."""
    return not is_file(name) and find(kind, name).builtin


def label(name: str) -> str:
    """Return the short name under which the options of `name` are reached (``--reward.<label>.alpha``)."""
    if not is_file(name):
        return name.rpartition(":")[2]
    path, _, attribute = name.rpartition(":") if ":" in Path(name).name else (name, "", "component")
    file = Path(path)
    stem = file.absolute().parent.name if file.name == "__init__.py" else file.stem  # a package has its folder's name
    return (stem if attribute == "component" else attribute).replace("_", "-")


def load(entry: Entry) -> Any:
    """Import and return what an entry names: a `Component`, or the object of a command or of answers."""
    module, _, attribute = entry.value.partition(":")
    title = _title(entry)
    if not entry.builtin:
        claim(module, title, entry.distribution)
    try:
        return getattr(importlib.import_module(module), attribute or "component")
    except MotionkitError:
        raise
    except BaseException as error:  # a plugin may fail in any way while it is imported
        if is_stop(error):
            raise
        raise MotionkitError(
            f"{title} does not import: {in_words(error)}",
            why=f"its entry point names {entry.value}.",
            fix=INSTALL_FIX
            if entry.builtin
            else f"update or remove {entry.distribution}"
            + ("." if entry.kind in OBJECTS else "; motionkit plugins list --check shows every such package."),
        ) from error


def _title(entry: Entry) -> str:
    row = OBJECTS.get(entry.kind) or KINDS[entry.kind]
    return f"{row.singular} {entry.name!r} of package {entry.distribution!r}"


def _load(entry: Entry) -> Component:
    component = _checked(load(entry), f"{entry.value} of package {entry.distribution!r}")
    if not entry.builtin:
        claim(component.factory.partition(":")[0], _title(entry), entry.distribution)
    return component


def _from_file(kind: str, name: str) -> Component:
    path_text, _, attribute = name.rpartition(":") if not name.endswith(".py") else (name, "", "component")
    path = Path(os.path.realpath(Path(path_text).expanduser()))
    if not path.is_file():
        raise MotionkitError(f"plugin file {path_text} does not exist.", fix="give ./file.py:attribute")
    module = _module_of(path)
    # Name and module are the user's.
    if not hasattr(module, attribute):
        defined = {
            key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        }
        close = [key for key, value in defined.items() if _is_plain(kind, value)]
        close += [key for key, value in vars(module).items() if isinstance(value, Component)]
        fix = f"it has: {', '.join(close)}" if close else "define `component = Component(...)` in it."
        raise MotionkitError(f"{path_text} has no {attribute!r}.", fix=fix)
    target = getattr(module, attribute)
    return _of_function(kind, module, attribute, name) if _is_plain(kind, target) else _checked(target, name)


def _is_plain(kind: str, value: object) -> bool:
    """Whether a value is a plain function that this kind accepts as a plugin."""
    return bool(KINDS[kind].function) and inspect.isfunction(value)


def _of_function(kind: str, module: ModuleType, attribute: str, name: str) -> Component:
    """Return a component for a plain function; its factory is stored in the file's module."""
    from pydantic import create_model

    function, target = getattr(module, attribute), KINDS[kind].function
    check_signature(function)

    def factory(options: BaseModel, **runtime: Any) -> Any:
        place, _, maker = target.partition(":")
        return getattr(importlib.import_module(place), maker)(function, label(name), **runtime)

    setattr(module, f"_{attribute}_factory", factory)
    summary = (inspect.getdoc(function) or attribute).partition("\n")[0]
    options = create_model("NoOptions", __config__={"extra": "forbid"})
    return Component(summary, options, f"{module.__name__}:_{attribute}_factory")


def check_signature(function: object) -> None:
    """Refuse an object that cannot be called with samples and their prompts."""
    # An object that can be called need not have a name.
    name = getattr(function, "__name__", type(function).__name__)
    called = name if name.isidentifier() else "my_reward"
    fix = f"def {called}(motions, prompts): ... return a tensor, a number per motion"
    if not callable(function) or isinstance(function, type):
        description = f"the class {name}" if isinstance(function, type) else f"a {name}"
        raise MotionkitError(f"{description} is not a reward.", why="a reward has score(), or is a function.", fix=fix)
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        raise MotionkitError(
            f"{name}{signature} cannot be a reward.",
            why=f"it is called as {name}(motions, prompts): {error}.",
            fix=fix,
        ) from error


@lru_cache(maxsize=32)
def _module_of(path: Path) -> ModuleType:
    # Registered in sys.modules under a unique name, so that the factory "name:Class" can be imported later; files of
    # the same name in two folders are two modules.
    name = f"_motionkit_file_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MotionkitError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    claim(name, f"plugin file {path.name}", str(path))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # as in _load
        del sys.modules[name]
        if is_stop(error) or isinstance(error, MotionkitError):
            raise
        raise MotionkitError(f"{path} does not import: {in_words(error)}", fix="mend the file.") from error
    return module


def _checked(component: object, origin: str) -> Component:
    if not isinstance(component, Component):
        raise MotionkitError(
            f"{origin} is a {type(component).__name__}, not a motionkit Component.",
            fix="component = Component(summary=..., options=..., factory='module:Class')",
        )
    fields = {
        "summary": isinstance(component.summary, str),
        "options": isinstance(component.options, type) and hasattr(component.options, "model_fields"),
        "factory": isinstance(component.factory, str),
        "gives": isinstance(component.gives, str),
        "reads": isinstance(component.reads, str),
    }
    if wrong := [name for name, right in fields.items() if not right]:
        raise MotionkitError(
            f"the {wrong[0]} of {origin} cannot be {getattr(component, wrong[0])!r:.80}.",
            fix="Component(summary='One line.', options=A_subclass_of_motionkit.config.Group, factory='module:Class')",
        )
    several = isinstance(component.metrics, (str, tuple, list))
    for metric in component.own_metrics() if several else (component.metrics,):
        fault = metric.fault if isinstance(metric, Metric) else "it is not a motionkit.plugins.Metric"
        if fault:
            raise MotionkitError(
                f"the metrics of {origin} cannot hold {metric!r:.120}.",
                why=f"{fault}.",
                fix="metrics=(Metric('loss/mine', unit='1', better='down', meaning='What it measures.'),)",
            )
    reserved = {"name", "weight"} & set(component.options.model_fields)
    if reserved:
        raise MotionkitError(
            f"{origin} has an option called {sorted(reserved)[0]!r}.",
            why="'name' and 'weight' are the choice of the plugin and its weight.",
            fix="rename the option.",
        )
    return component


def _unknown(kind: str, name: str, entries: list[Entry]) -> MotionkitError:
    singular, names = KINDS[kind].singular, sorted({entry.name for entry in entries})
    fix = [did_you_mean(name, names)]
    fix.append(f"available: {', '.join(names)}." if names else f"no package has any {singular}.")
    message = f"there is no {singular} {name!r}."
    if other_kinds := [
        with_article(row.singular) for row in KINDS.values() if any(e.name == name for e in scan().of(row.name))
    ]:
        message = f"{name!r} is {either(other_kinds)}, not {with_article(singular)}."
    why = ""
    for broken in scan().broken:
        why = str(broken)
    return MotionkitError(message, why=why, fix=" ".join(part for part in fix if part), choices=names)


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
