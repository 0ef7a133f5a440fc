"""Make the pictures of README and of the gallery from the demo's folder and from small programs.

metadrift demo
python docs/make_pictures.py runs/demo-0.05

Writes docs/images/: idea.png (stream, changes noticed, memory and accuracy by domain), methods.png
(accuracy by method), own-pictures.png (pictures of a pack), live.png (a live learner) and
vectors.png (a stream of vectors). With Chromium installed also report.png (the top of the demo's
page).
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from matplotlib import rc_context
from matplotlib.figure import Figure

from metadrift import ContinualMetaLearner, TaskGeometry
from metadrift.data.preview import Sheet, draw_sheet
from metadrift.data.sampler import TaskSampler
from metadrift.data.synthetic.generate import builtin_pack
from metadrift.detection import DetectionConfig, detect
from metadrift.errors import MetadriftError
from metadrift.report.figures import DOMAIN_COLOURS, METHOD_COLOURS, write_figures
from metadrift.report.subject import Group, RunData, read_subject
from metadrift.runs.config import RunConfig
from metadrift.storage.files import write_atomically

IMAGES = Path(__file__).parent / "images"
DOMAINS, METHODS = DOMAIN_COLOURS.split(), METHOD_COLOURS.split()
GREY = "#5d6b7c"


def main(comparison: Annotated[Path, tyro.conf.Positional], out: Path = IMAGES) -> None:
    """Draw every picture anew."""
    subject = read_subject(comparison)
    idea(subject.groups[0], out / "idea.png")
    with tempfile.TemporaryDirectory() as folder:
        write_figures(subject, Path(folder))
        shutil.copyfile(Path(folder) / "domains.png", out / "methods.png")
    write_atomically(out / "own-pictures.png", sheet("creatures"))
    live(out / "live.png")
    vectors(out / "vectors.png")
    report_page(comparison / "report.html", out / "report.png")
    for name in ("idea", "methods", "own-pictures", "live", "vectors", "report"):
        print(out / f"{name}.png")


def report_page(page: Path, file: Path) -> None:
    """The top of a report, as a browser shows it; without Chromium the old picture stays."""
    browser = shutil.which("chromium")
    if browser is None:
        print("there is no Chromium here, so report.png is not made anew")
        return
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += ["--disable-background-networking", "--window-size=1200,1130"]
    words += [f"--screenshot={file.resolve()}", page.resolve().as_uri()]
    subprocess.run(words, check=True, capture_output=True)


def idea(group: Group, file: Path) -> None:
    """What arrives, what is noticed, what is kept, and what is still known at the end."""
    runs = {variant.label: variant.runs for variant in group.variants}
    ours = runs["m2d3-pets"][0]
    colours = dict(zip(group.domains, DOMAINS, strict=False))
    with drawn(file, (9, 6.4)) as made:
        top, middle, bottom = made.subfigures(3, 1, height_ratios=[1.25, 2, 2])
        stream(top.subplots(), group, ours, colours)
        panels = middle.subplots(1, 2, sharey=True)
        for axes, name in zip(panels, ("reservoir", "m2d3-pets"), strict=True):
            memory(axes, runs[name][0], name, colours)
        panels[0].set_ylabel("share of memory, %")
        panels[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        accuracy(bottom.subplots(), runs, group.domains)


def stream(axes: Any, group: Group, run: RunData, colours: dict[str, str]) -> None:
    for domain, start, end in group.stays:
        axes.barh(1, end - start, left=start, color=colours[domain], height=0.9)
        axes.text((start + end) / 2, 1, domain, ha="center", va="center")
    for change in run.happened("change"):
        at = change["at_step"]
        axes.plot([at, at], [0.1, 0.5], color=GREY)
        axes.plot(at, 0.5, "^", color=GREY)
        axes.text(at + 8, 0.2, f"step {at}", size=7)
    axes.set(xlim=(0, run.steps), ylim=(0, 1.5), yticks=[], xlabel="step")
    axes.spines["left"].set_visible(False)
    axes.set_title(
        "The stream: nobody tells the learner where one domain ends. ▲ is where it noticed",
        loc="left",
    )


def memory(axes: Any, run: RunData, name: str, colours: dict[str, str]) -> None:
    lines = [line for line in run.metrics if line.get("memory_true")]
    steps = [line["step"] for line in lines]
    shares = [[100 * line["memory_true"].get(d, 0) for line in lines] for d in colours]
    axes.stackplot(steps, shares, labels=list(colours), colors=list(colours.values()))
    axes.set(xlim=(0, run.steps), ylim=(0, 100), xlabel="step")
    axes.set_title(f"Memory of {name}", loc="left")


def accuracy(axes: Any, runs: dict[str, list[RunData]], domains: list[str]) -> None:
    """Bars of the mean over seeds, a dot per seed."""
    width = 0.8 / len(runs)
    for place, (name, those) in enumerate(runs.items()):
        summaries = [run.summary for run in those if run.summary]
        scores = np.array(
            [[100 * s["accuracy"]["per_domain"][d]["mean"] for d in domains] for s in summaries]
        )
        means = np.column_stack([scores, scores.mean(1)])
        x = np.arange(len(domains) + 1) + (place - (len(runs) - 1) / 2) * width
        axes.bar(x, means.mean(0), 0.9 * width, color=METHODS[place], label=name, alpha=0.85)
        for one in means:
            axes.plot(x, one, ".", color="black", ms=3)
        for left, value in zip(x, means.mean(0), strict=True):
            axes.text(left, 3, f"{value:.0f}", ha="center", color="white", size=8)
    axes.axhline(20, color=GREY, ls=":", lw=1)
    axes.text(-0.83, 22, "guessing", size=7, color=GREY)
    axes.set_xticks(range(len(domains) + 1), [*domains, "mean of all"])
    axes.set(xlim=(-0.85, len(domains) + 0.5), ylim=(0, 100), ylabel="accuracy, %")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.set_title("At the end, on classes never seen in training; dots are seeds", loc="left")


def sheet(domain: str) -> bytes:
    """Some pictures of a pack, as `metadrift data preview` shows them."""
    rng = np.random.default_rng(0)
    picture = draw_sheet(builtin_pack(domain), Sheet(classes=5, images=10), rng)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def live(file: Path) -> None:
    """The learner of README: what the detector saw, and where it noticed the change."""
    geometry, rng = TaskGeometry(ways=5, shots=1, queries=5), np.random.default_rng(0)
    config = RunConfig(detection=DetectionConfig(window=12, burn_in=50))
    model = ContinualMetaLearner(
        geometry=geometry, image_size=28, tasks_per_step=2, memory=20, config=config
    )
    records = []
    for name, steps in (("sketches", 90), ("textures", 60)):
        train = TaskSampler(builtin_pack(name), "train", geometry, model.example)
        records += [model.observe(train.draw(2, rng)) for _ in range(steps)]
    with drawn(file, (7, 2.6)) as made:
        axes = made.subplots()
        for key, style in (("statistic", "-"), ("threshold", "--")):
            axes.plot([r.extra.get(key, np.nan) for r in records], style, label=key)
        axes.axvspan(0, 90, color=DOMAINS[0], alpha=0.35, lw=0)
        axes.axvspan(90, 150, color=DOMAINS[1], alpha=0.35, lw=0)
        top = axes.get_ylim()[1]
        axes.text(45, 0.9 * top, "sketches", ha="center")
        axes.text(120, 0.9 * top, "textures", ha="center")
        for at, record in enumerate(records):
            if record.change:
                axes.axvline(at, color=GREY)
                axes.text(at + 1, 0.7 * top, f"noticed at {at}")
        axes.set(xlim=(0, 150), xlabel="step")
        axes.legend(loc="lower left", frameon=False)
        axes.set_title("A live learner notices that its stream changed", loc="left")


def vectors(file: Path) -> None:
    """Vectors of three kinds, one after the other, and the changes that `detect` finds in them."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(mean, 1, (300, 8)) for mean in (0.0, 1.5, -1.0)]
    trace = detect(np.concatenate(rows), window=20)
    with drawn(file, (7, 2.6)) as made:
        axes = made.subplots()
        axes.plot(np.concatenate(rows)[:, :3], lw=0.4, alpha=0.8)
        for change in trace.changes:
            axes.axvline(change.started_at, color="black")
            axes.text(change.started_at + 5, 3.6, f"change at {change.started_at}")
        axes.set(xlim=(0, 900), ylim=(-5, 5), xlabel="step", ylabel="3 of 8 numbers")
        axes.set_title("A stream of vectors, and where it changed", loc="left")


@contextmanager
def drawn(file: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure that is written to a PNG file at the end, the same bytes for the same data."""
    style: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 10, "text.parse_math": False}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        made = Figure(figsize=size, layout="constrained")
        yield made
        png = io.BytesIO()
        made.savefig(png, format="png", dpi=160, metadata={"Software": None})
        write_atomically(file, png.getvalue())


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except MetadriftError as error:
        raise SystemExit(f"make_pictures: {error}") from None
