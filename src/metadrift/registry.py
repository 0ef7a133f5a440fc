"""Parts by name: those of this package, of installed packages, and of the user's own files.

A name is one of the list below, the name of an entry point in the group `metadrift.KIND` of an
installed package, or a reference to code: `package.module:Name` or `path/to/file.py:Name`.

Code is loaded by reference only if the user named it: `allow` gets every reference on the command
line. A reference in a file or in a run's folder is not enough.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.tables import did_you_mean, from_table

T = TypeVar("T")
Kind = Literal[
    "methods",
    "learners",
    "backbones",
    "detectors",
    "features",
    "memories",
    "samplers",
    "optimizers",
]

_BUILT_IN: dict[Kind, dict[str, str]] = {
    "methods": {
        "sequential": "metadrift.methods.sequential:Sequential",
        "reservoir": "metadrift.methods.reservoir:Reservoir",
        "gss": "metadrift.methods.gss:GSS",
        "agem": "metadrift.methods.agem:AGEM",
        "mir": "metadrift.methods.mir:MIR",
        "mer": "metadrift.methods.mer:MER",
        "m2d3-pets": "metadrift.methods.m2d3_pets:M2D3PETS",
        "loss-aware": "metadrift.methods.loss_aware:LossAware",
        "balanced-oracle": "metadrift.methods.balanced_oracle:BalancedOracle",
    },
    "learners": {
        "protonet": "metadrift.learners.protonet:ProtoNet",
        "anil": "metadrift.learners.anil:ANIL",
        "maml": "metadrift.learners.maml:MAML",
        "ridge": "metadrift.learners.ridge:Ridge",
    },
    "backbones": {
        "conv4": "metadrift.learners.networks:conv4",
        "conv5": "metadrift.learners.networks:conv5",
        "resnet12": "metadrift.learners.networks:ResNet12",
        "mlp": "metadrift.learners.networks:MLP",
        "identity": "metadrift.learners.networks:Identity",
    },
    "detectors": {
        "default": "metadrift.detection.twostage:TwoStageDetector",
        "fourier": "metadrift.detection.twostage:TwoStageDetector",
        "paper": "metadrift.detection.detectors:PaperDetector",
    },
    "features": {
        "frozen": "metadrift.detection.features:FrozenFeatures",
        "network": "metadrift.detection.features:NetworkFeatures",
        "both": "metadrift.detection.features:BothFeatures",
        "paper_z": "metadrift.detection.features:PaperFeatures",
    },
    "optimizers": {},  # those of torch.optim have their own names
    "memories": {
        "reservoir": "metadrift.memory.reservoir:ReservoirMemory",
        "loss-aware": "metadrift.memory.loss_aware:LossAwareMemory",
        "gss": "metadrift.memory.gss:GSSMemory",
        "m2d3": "metadrift.memory.m2d3:M2D3Memory",
    },
    "samplers": {
        "uniform": "metadrift.replay.uniform:UniformReplay",
        "pets": "metadrift.replay.pets:PETS",
        "learned": "metadrift.replay.learned:LearnedReplay",
    },
}
_REFERENCE = re.compile(r"(?P<home>(.*\.py)|([^\W\d]\w*(\.[^\W\d]\w*)*)):(?P<name>[^\W\d]\w*)")

_allowed: dict[str, str] = {}  # a reference with its whole path -> the reference to load
_loaded: dict[str, str] = {}  # code loaded from outside this package -> sha256 of its file
_files: set[str] = set()  # the files of that code
_any_name = ContextVar("_any_name", default=False)


def built_in(kind: Kind) -> tuple[str, ...]:
    """The built-in names."""
    return tuple(_BUILT_IN[kind])


def names(kind: Kind) -> tuple[str, ...]:
    """The names of this package and of installed plug-ins."""
    return (*_BUILT_IN[kind], *_installed(kind))


def is_reference(word: str) -> bool:
    """True for `package.module:Name` and `file.py:Name`.

    Examples
    --------
    >>> is_reference("./mine.py:Twice"), is_reference("a.b:Twice"), is_reference("reservoir")
    (True, True, False)
    """
    return _REFERENCE.fullmatch(word) is not None


def short(word: str) -> str:
    """The name for tables and folders: a reference without its module or file.

    Examples
    --------
    >>> short("./mine.py:Twice"), short("reservoir")
    ('Twice', 'reservoir')
    """
    return word.rpartition(":")[2] if is_reference(word) else word


def check(kind: Kind, word: str, also: Iterable[str] = ()) -> None:
    """Refuse a word that is neither a name of `kind`, nor one of `also`, nor a reference."""
    if not _any_name.get():
        _refuse_unknown(kind, word, also)


@contextmanager
def any_name() -> Iterator[None]:
    """Let `check` pass every name: who only reads a run needs none of its parts installed."""
    before = _any_name.set(True)
    try:
        yield
    finally:
        _any_name.reset(before)


def is_known(kind: Kind, word: str) -> bool:
    """True for a name of this package or of an installed one."""
    return word in names(kind)


def allow(*words: str) -> None:
    """Allow the references among the words that a user typed."""
    for word in words:
        for text in (word, word.partition("=")[2]):
            if is_reference(text):
                _allowed[whole(text)] = whole(text)


def allowed() -> list[str]:
    """The references that the user named, to pass on to worker processes."""
    return list(_allowed)


def whole(word: str) -> str:
    """A reference with the absolute path of its file, valid in any folder."""
    home, _, name = word.rpartition(":")
    return f"{Path(home).resolve()}:{name}" if is_reference(word) and home.endswith(".py") else word


def find(kind: Kind, word: str) -> Any:
    """The class that a name or a reference stands for."""
    _refuse_unknown(kind, word)
    if word in _BUILT_IN[kind]:
        module, _, name = _BUILT_IN[kind][word].partition(":")
        return getattr(importlib.import_module(module), name)
    if not is_reference(word):
        entry = _installed(kind)[word]
        module = _loading(word, lambda: importlib.import_module(entry.module))
        return _noted(word, _attribute(word, module, entry.attr), module)
    asked = whole(word)
    # A file may have moved: it is enough that the user names it in its new place.
    same = [known for known in _allowed if Path(known).name == Path(asked).name]
    if asked not in _allowed and not same:
        raise UsageError(
            f"{word} is code from outside of metadrift and was not loaded: nothing but the command "
            f"line makes metadrift load code. If you trust it, add --plugin {word} (from Python: "
            f"metadrift.registry.allow({word!r}))"
        )
    home, _, name = (asked if asked in _allowed else same[0]).rpartition(":")
    load = partial(_module_of, Path(home)) if home.endswith(".py") else partial(_import, word, home)
    module = _loading(word, load)
    return _noted(word, _attribute(word, module, name), module)


def subclass(kind: Kind, word: str | type, base: Callable[..., T]) -> type[T]:
    """The class that a word stands for, or a class itself; it must be a subclass of `base`."""
    return checked(find(kind, word), base, word) if isinstance(word, str) else checked(word, base)


def checked(found: Any, base: Callable[..., T], said: str | None = None) -> type[T]:
    """The class, if it is a subclass of `base`."""
    assert isinstance(base, type)  # declared as a callable, because type[T] takes no abstract class
    room = ".".join(base.__module__.split(".")[:2])
    said = said or getattr(found, "__name__", repr(found))
    if not isinstance(found, type) or not issubclass(found, base):
        raise UsageError(f"{said} is not a subclass of {room}.{base.__name__}")
    lacking = sorted(getattr(found, "__abstractmethods__", ()))
    if lacking:
        needed = " and ".join(lacking)
        raise UsageError(f"{said} needs a method {needed}, as {room}.{base.__name__} describes it")
    return cast(type[T], found)


def made(kind: type[T], *arguments: Any, options: Mapping[str, Any] | None = None) -> T:
    """A plug-in from its arguments; one that has `Options` is given them as `options=`."""
    own = own_options(kind, options or {})
    return call(kind, *arguments) if own is None else call(kind, *arguments, options=own)


def call(make: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a class or a function; one that does not take these arguments is refused by name."""
    try:
        inspect.signature(make).bind(*arguments, **named)
    except TypeError as error:
        kinds = [type(argument).__name__ for argument in arguments]
        given = ", ".join([*kinds, *(f"{name}=" for name in named)])
        raise UsageError(
            f"{make.__name__} is made as {make.__name__}({given}), and it does not take that: "
            f"{error}"
        ) from None
    except ValueError:
        pass  # it does not say what it takes
    return make(*arguments, **named)


def own_options(kind: type, table: Mapping[str, Any]) -> Any:
    """The `Options` dataclass of a plug-in, from its fields in a table; None if it has none."""
    own: Any = getattr(kind, "Options", None)
    mine = {name: table[name] for name in option_names([kind]) if name in table}
    if own is None:
        return None
    return from_table(own, mine, f"options of {kind.__name__}")


def option_names(kinds: Iterable[type]) -> list[str]:
    """The options that plug-ins have."""
    found = []
    for kind in kinds:
        own = getattr(kind, "Options", None)
        if own is not None and not dataclasses.is_dataclass(own):
            raise UsageError(f"{kind.__name__}.Options must be a dataclass")
        found += [] if own is None else [field.name for field in dataclasses.fields(own)]
    return found


def refuse_unknown_options(kinds: Iterable[type], table: Mapping[str, Any]) -> None:
    """Refuse an option that none of the plug-ins has."""
    known = option_names(kinds)
    for name in table:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "the parts of this run have none"
            hint = did_you_mean(name, known) or f"; {there}"
            raise UsageError(f"there is no option {name!r}{hint}")


def loaded() -> dict[str, str]:
    """Code from outside of this package that was loaded, with the sha256 of its files."""
    return dict(_loaded)


def place_in_loaded(error: BaseException) -> str:
    """The line of loaded code from outside of this package that raised; empty if none did."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in _files]
    return f"line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""


_NONE: dict[Kind, str] = {
    "methods": "there is no method",
    "learners": "there is no learner",
    "backbones": "there is no backbone",
    "detectors": "there is no detector",
    "features": "there are no features",
    "memories": "there is no memory",
    "samplers": "there is no sampler",
    "optimizers": "there is no optimiser",
}


@cache
def _installed(kind: Kind) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"metadrift.{kind}")}


def _refuse_unknown(kind: Kind, word: str, also: Iterable[str] = ()) -> None:
    known = [*names(kind), *also]
    if word in known or is_reference(word):
        return
    hint = did_you_mean(word, known) or f"; there are {', '.join(known)}"
    if word.endswith(".py"):
        hint = f"; say which class of the file: {word}:NAME"
    raise UsageError(f"{_NONE[kind]} {word!r}{hint}")


def _loading(word: str, load: Callable[[], Any]) -> Any:
    """The module of a user's code; an error in it is said with its file and line."""
    try:
        return load()
    except MetadriftError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(f.filename, f.lineno) for f in frames if not f.filename.startswith("<")]
        file, line = places[-1]
        if isinstance(error, SyntaxError):
            file, line = error.filename or file, error.lineno
        why = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        raise UsageError(
            f"{word} cannot be loaded: {why}, in line {line} of {file} (--debug shows all)"
        ) from error


def _import(word: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise  # the module exists, but one that it imports does not
        raise UsageError(
            f"{word}: there is no module {module!r}; install its package, or name the folder that "
            "holds it in PYTHONPATH"
        ) from None


@cache
def _module_of(file: Path) -> Any:
    name = f"metadrift_plugin_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute(word: str, module: Any, name: str) -> Any:
    if not hasattr(module, name):
        hint = did_you_mean(name, [n for n in vars(module) if not n.startswith("_")])
        raise UsageError(f"{word}: its module has no {name!r}{hint}")
    return getattr(module, name)


def _noted(word: str, found: Any, named: Any) -> Any:
    module = sys.modules.get(getattr(found, "__module__", ""), named)
    file = getattr(module, "__file__", None)
    if file is None:
        raise MetadriftError(f"{word} has no source file, so it cannot be recorded")
    _loaded[f"plugin {short(word)}"] = _sha256(Path(file))
    _files.add(file)
    return found


@cache
def _sha256(file: Path) -> str:
    """Of the file as it was loaded: who edits it while a run goes on does not change the run."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
