"""`metadrift run`: train one method on one benchmark and score it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import tyro

from metadrift import registry
from metadrift.commands.arguments import in_full, known_names, parse, value_of
from metadrift.commands.short_help import ShortHelp, field_texts
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.table import percent
from metadrift.runs.config import RunConfig, load_config, mark_of
from metadrift.storage.files import is_folder_name, plain
from metadrift.storage.terminal import print_table, printable


@dataclass(frozen=True)
class RunArguments:
    """Train one method with one learner on one benchmark, and score it on unseen classes.

    The run's folder is OUT/NAME: config.toml (repeats the run with --config), metrics.jsonl,
    events.jsonl, checkpoints and summary.json.
    """

    out: Path = Path("runs")
    """Where runs are kept."""
    name: str | None = None
    """The run's folder; by default made from method, learner, benchmark, shots and seed."""
    config: Path | None = None
    """A config.toml to start from; options on the command line win over it."""
    json: bool = False
    """Print the summary as JSON and show no progress."""
    plugin: tuple[str, ...] = ()
    """Code of yours that --config names, named again: package.module:Name or file.py:Name."""
    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)


HELP = ShortHelp(
    examples=[
        ("--scale 0.05 --shots 5", "a twentieth of the built-in stream"),
        ("--method reservoir --learner anil --seed 1 --scale 0.05", "another method and learner"),
        ("--benchmark mine.toml --name mine", "a custom stream"),
        ("--config runs/mine/config.toml --name again", "repeat a run"),
    ],
    settings="method learner backbone benchmark scale shots seed lr data device name out",
)


_OWN_OPTIONS = """
--options.NAME VALUE sets an option of such code; --method FILE.py:NAME --options.help lists them.
"""


def main(words: list[str]) -> int:
    """Parse and run; --config and the benchmark give the defaults that the rest is read against."""
    file, benchmark = value_of("--config", words), value_of("--benchmark", words)
    default = RunArguments(run=load_config(None if file is None else Path(file), benchmark))
    words, own = split_options(in_full(words))
    after_help = f"{known_names()}\n{_OWN_OPTIONS}"
    arguments = parse(RunArguments, "run", words, default, after_help, HELP)
    from metadrift.distributed.group import joined
    from metadrift.learners.allocator import keep_freed_memory
    from metadrift.runs.loop import start
    from metadrift.streams import load_benchmark

    keep_freed_memory()
    config = with_options(arguments.run, own)
    name = arguments.name or default_name(config, load_benchmark(config.benchmark).name)
    if not is_folder_name(name):
        raise UsageError(f"--name is the name of a folder, not {name!r}; --out says where it lies")
    with joined() as group:
        summary = start(config, arguments.out / name, arguments.json, group)
        if group.leads:
            show_summary(summary, arguments.out / name, arguments.json)
    return 0


def split_options(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words without `--options.NAME VALUE`, and those with it by NAME.

    Examples
    --------
    >>> split_options(["--seed", "1", "--options.beta", "2", "--scale=1", "--options.kind=x"])
    (['--seed', '1', '--scale=1'], {'beta': ['--options.beta', '2'], 'kind': ['--options.kind=x']})
    """
    rest: list[str] = []
    own: dict[str, list[str]] = {}
    place = rest
    for word in words:
        if word.startswith("--options."):
            name = word.partition("=")[0].removeprefix("--options.")
            place = own.setdefault(name.replace("-", "_"), [])
        elif word.startswith("-") and not word[1:2].isdigit():
            place = rest
        place.append(word)
    return rest, own


def with_options(config: RunConfig, words: dict[str, list[str]]) -> RunConfig:
    """The settings with the options of its plug-ins, of which the words give some."""
    if not words:
        return config
    from metadrift.runs.plugins import plugin_classes

    kinds = plugin_classes(config)
    registry.refuse_unknown_options(kinds, {name: 0 for name in words if name != "help"})
    if "help" in words:
        explain_options(kinds, config.options)
    options = dict(config.options)
    for kind in kinds:
        mine = [word for name in registry.option_names([kind]) for word in words.get(name, ())]
        if mine:
            given = registry.own_options(kind, options)
            holder = make_dataclass("Given", [("options", type(given))])
            parsed: Any = parse(holder, "run", mine, holder(given))
            options |= plain(asdict(parsed.options))
    return replace(config, options=options)


def explain_options(kinds: Sequence[type], options: dict[str, Any]) -> NoReturn:
    """Print the options of plug-ins, and end."""
    found = [own for kind in kinds if (own := registry.own_options(kind, options)) is not None]
    if not found:
        print("the parts of this run have no options of their own")
    for own in found:
        texts = field_texts(type(own))
        for name, value in asdict(own).items():
            print(f"--options.{name.replace('_', '-')}  {texts.get(name, '')} (default: {value})")
    raise SystemExit(0)


def default_name(config: RunConfig, benchmark: str) -> str:
    method, learner = registry.short(config.method), registry.short(config.learner)
    return f"{method}-{learner}-{benchmark}-{config.shots}shot-seed{config.seed}"


def show_summary(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Print the result of a run."""
    if as_json:
        print(json.dumps(summary))
        return
    try:
        _print_accuracy(summary)
        before = summary.get("before_rehearsal")
        if before:
            print(f"mean before the rehearsal: {percent(before['mean'], before['ci95'])} %")
        found = summary["detection"]
        if found:
            print(
                f"changes found: {found['detected']} of {found['true_changes']}, "
                f"false alarms: {found['false_alarms']}"
            )
            if found.get("returns"):
                print(
                    f"returns recognised: {found['recognised']} of {found['returns']}, "
                    f"latent domains: {found['latent_domains']}, true ones: {found['true_domains']}"
                )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MetadriftError(
            f"{folder / 'summary.json'} is not a summary of this version: {error}"
        ) from None
    print(f"run folder: {printable(str(folder))}")


def _print_accuracy(summary: dict[str, Any]) -> None:
    accuracy = summary["accuracy"]
    domains = accuracy["per_domain"].items()
    marked = mark_of(summary["method"], summary["oracle"])
    print_table(
        ["domain", "accuracy %", "tasks"],
        [
            [name, percent(scored["mean"], scored["ci95"]), str(scored["tasks"])]
            for name, scored in domains
        ],
        f"{summary['method']}{marked} with {summary['learner']}",
        right=["accuracy %", "tasks"],
        last=["mean", percent(accuracy["mean"], accuracy["ci95"]), ""],
    )
