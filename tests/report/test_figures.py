"""Files for papers: every chart and every table in three formats."""

import csv
import xml.etree.ElementTree as ET
from importlib import resources

import pytest
from PIL import Image

from metadrift.report.drawing import figure, figure_files
from metadrift.report.figures import DOMAIN_COLOURS, METHOD_COLOURS
from metadrift.report.make import make_report
from metadrift.report.subject import read_subject
from metadrift.report.tables import Cell, Table, comma_separated, latex, markdown, tables_of


@pytest.mark.slow
def test_every_chart_is_a_png_an_svg_and_a_pdf(comparison, tmp_path):
    _, files = make_report(comparison, tmp_path / "p.html", tmp_path / "figures")
    names = {file.name for file in files}
    assert {"stream.png", "stream.svg", "memory-reservoir.png", "difference.svg"} <= names
    assert all(file.stat().st_size for file in files)
    with Image.open(tmp_path / "figures" / "stream.png") as image:
        assert image.width > 1000
    assert "stones" in "".join(ET.parse(tmp_path / "figures" / "stream.svg").getroot().itertext())
    stems = {file.stem for file in files if file.suffix == ".png"}
    assert stems == {file.stem for file in files if file.suffix == ".pdf"}
    pdf = (tmp_path / "figures" / "stream.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert b"/TrueType" in pdf or b"/Type0" in pdf
    assert b"/Type3" not in pdf  # fonts that publishers refuse


@pytest.mark.slow
def test_the_same_data_give_the_same_files(tmp_path):
    for name in ("one", "two"):
        with figure(tmp_path / name, (3, 2), "title") as axes:
            axes.plot([1, 2, 3], label="line")
            axes.legend()
    first, second = (figure_files(tmp_path / name) for name in ("one", "two"))
    assert [file.suffix for file in first] == [".png", ".svg", ".pdf"]
    assert [a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True)] == [
        True
    ] * 3


def test_the_csv_has_numbers_with_their_intervals(comparison):
    (group,) = read_subject(comparison).groups
    text = comma_separated(tables_of(group)[0])
    rows = {row["variant"]: row for row in csv.DictReader(text.splitlines())}
    assert abs(float(rows["m2d3-pets"]["accuracy %"]) - 0.545) < 1e-9
    assert float(rows["m2d3-pets"]["accuracy % low"]) < 0.545
    assert abs(float(rows["m2d3-pets"]["to reservoir"]) - 0.04) < 1e-9


def test_names_cannot_break_a_table():
    table = Table("t", "t", ["a_b"], [[Cell("x|y & <b>_50%\n\\end{tabular}")]], [0])
    assert markdown(table).splitlines()[2] == r"| x\|y &amp; &lt;b&gt;_50% \end{tabular} |"
    line = latex(table).splitlines()[4]
    assert line.startswith(
        r"x|y \& \textless{}b\textgreater{}\_50\% \textbackslash{}end\{tabular\}"
    )
    assert next(csv.reader(comma_separated(table).splitlines())) == ["a_b"]


def test_files_and_page_share_their_colours():
    style = (resources.files("metadrift.report") / "templates" / "page.css").read_text()
    day = style[: style.index("@media")]
    for letter, colours in (("m", METHOD_COLOURS), ("d", DOMAIN_COLOURS)):
        for number, colour in enumerate(colours.split()):
            assert f"--{letter}{number}: {colour};" in day
