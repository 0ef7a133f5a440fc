"""The content of charts. `svg.py` draws them for the page, `figures.py` for papers.

Colours are names: `m0`, `m1`, ... for methods, `d0`, `d1`, ... for domains, `ink` and `muted` for
the rest. The page has two values for each, light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["%", "points", ""]
METHODS, DOMAINS = 10, 10  # the number of colours; after the last one they repeat


@dataclass(frozen=True)
class Series:
    """A line. With several seeds also a band from the lowest to the highest value."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str
    variant: int | None = None
    """The variant's key: the page hides elements by it. None: never hidden."""
    dashed: bool = False
    dots: bool = False
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True)
class Mark:
    """An event at a step."""

    x: float
    kind: Literal["change", "alarm"]
    text: str


@dataclass(frozen=True)
class Span:
    """A stay in a domain."""

    start: float
    end: float
    name: str
    colour: str
    label: str = ""


@dataclass(frozen=True)
class Chart:
    """Common to all charts: a file name, a title, and the variant if it shows only one."""

    slug: str
    title: str
    variant: int | None


@dataclass(frozen=True)
class LineChart(Chart):
    """Numbers along the steps."""

    y_label: str
    series: Sequence[Series]
    unit: Unit = ""
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()
    steps: float | None = None
    """End of the x axis; by default the end of the data."""
    from_zero: bool = True
    """Whether a y axis without a unit begins at 0."""


@dataclass(frozen=True)
class StackChart(Chart):
    """Shares of a whole over the steps."""

    whole: str
    """The whole that is shared: memory, or draws."""
    x: Sequence[float]
    layers: Sequence[Series]
    spans: Sequence[Span]
    steps: float


@dataclass(frozen=True)
class Dot:
    """A mean with its interval, and the single values."""

    name: str
    value: float
    colour: str
    variant: int
    low: float | None = None
    high: float | None = None
    each: Sequence[float] = ()


@dataclass(frozen=True)
class DotChart(Chart):
    """Values with intervals, in rows; a row may hold several dots, one below the other."""

    x_label: str
    rows: Sequence[tuple[str, Sequence[Dot]]]
    unit: Unit = "%"
    zero: bool = False
    """Draw the line of no difference."""


@dataclass(frozen=True)
class RibbonChart(Chart):
    """Rows of stays along the steps, with the alarms of each row."""

    rows: Sequence[Ribbon]
    steps: float


@dataclass(frozen=True)
class Ribbon:
    name: str
    spans: Sequence[Span]
    marks: Sequence[Mark] = ()
    variant: int | None = None


def shown(value: float | None, unit: Unit) -> str:
    """A value as text.

    Examples
    --------
    >>> shown(0.5123, "%"), shown(0.02, "points"), shown(0.00012345, ""), shown(None, "%")
    ('51.2%', '+2.0', '0.0001234', '–')
    """
    if value is None:
        return "–"
    if unit == "%":
        return f"{100 * value:.1f}%"
    return f"{100 * value:+.1f}" if unit == "points" else f"{value:.4g}"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most `most`.

    Examples
    --------
    >>> ticks(0, 410), ticks(0.31, 0.72)
    ([0, 100, 200, 300, 400], [0.4, 0.5, 0.6, 0.7])
    """
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0**-12
    while span / power > most * 10:
        power *= 10
    step = next(power * f for f in (1, 2, 5, 10, 20, 50) if span / (power * f) <= most)
    first = -int(-low // step) if low >= 0 else int(low / step)
    found = [round(step * k, 12) for k in range(first, first + most + 2)]
    return [int(t) if t == int(t) else t for t in found if low <= t <= high]
