"""What the names of classes add to detection, and whether they ever hurt.

    python benchmarks/context.py --seeds 10

Two kinds of streams, each with and without `--detection.context`. In the first the pictures stay
and the language changes: both halves are the classes of one built-in domain, with made-up names of
two languages. In the second the six built-in domains follow each other. No learner is trained.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tyro

from metadrift.data.pack import Pack
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.data.synthetic.generate import ensure_builtin
from metadrift.detection import DetectionConfig, make_detector
from metadrift.detection.features import make_features
from metadrift.evaluation.detection import DetectionScore, score_detection
from metadrift.streams import Benchmark, TaskStream, Truth
from metadrift.streams.benchmark import Segment
from metadrift.tasks import TaskGeometry

SYLLABLES = {
    "first": ["ka", "lo", "mi", "su", "ra", "te", "no", "ki"],
    "second": ["sch", "trum", "olb", "eng", "wer", "pf", "itz", "ang"],
}


def main(seeds: int = 10, steps: int = 150) -> None:
    """Count found changes and false alarms.

    Parameters
    ----------
    seeds
        Streams of each kind.
    steps
        Steps of each stay.
    """
    packs = dict(zip(BUILTIN, ensure_builtin(BUILTIN), strict=True))
    spoken = {language: speaking(packs["sketches"], language) for language in SYLLABLES}
    streams = {
        "one domain, two languages": (["first", "second"] * 3, spoken),
        "the six built-in domains": (list(BUILTIN), packs),
    }
    print("| stream | context | changes found | false alarms | mean delay |")
    print("|---|---|---|---|---|")
    for what, (domains, of) in streams.items():
        segments = tuple(Segment(domain, steps) for domain in domains)
        for context in (False, True):
            scores = [score(segments, of, seed, context) for seed in range(seeds)]
            found, changes = (
                sum(getattr(s, n) for s in scores) for n in ("detected", "true_changes")
            )
            late = [s.mean_delay for s in scores if s.detected]
            mean = f"{np.mean(late):.1f}" if late else ""
            print(
                f"| {what} | {'on' if context else 'off'} | {found} of {changes} "
                f"| {sum(s.false_alarms for s in scores)} | {mean} |"
            )


def speaking(pack: Pack, language: str) -> Pack:
    """The same pictures under made-up names."""
    rng = np.random.default_rng(len(language))
    words = ["".join(rng.choice(SYLLABLES[language], 3)) for _ in pack.class_names]
    return replace(pack, class_names=words)


def score(
    segments: tuple[Segment, ...], packs: dict[str, Pack], seed: int, context: bool
) -> DetectionScore:
    """One stream through the detector alone."""
    benchmark = Benchmark("context", "context", segments, 1, 2, "builtin")
    settings = replace(DetectionConfig().scaled(0.05), context=context)
    stream = TaskStream(benchmark, packs, TaskGeometry(5, 1, 1), seed, context=context)
    features, detector = make_features(settings, stream.kind), make_detector(settings)
    found = [detector.update(features(tasks)) for tasks in stream]
    reports = [change.at_step for change in found if change]
    return score_detection(Truth(segments).changes, reports, len(stream))


if __name__ == "__main__":
    tyro.cli(main)
