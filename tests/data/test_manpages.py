"""The example that makes packs of translated manual pages, on pages of our own."""

import gzip
import runpy
import sys
from pathlib import Path

from metadrift.data.pack import open_pack
from metadrift.examples import Arrays
from metadrift.streams import load_benchmark, open_packs

SCRIPT = Path(__file__).parents[2] / "examples" / "manpages.py"


def page(name, paragraphs=16):
    about = "works on many kinds of files \\- and on nothing else at all"
    texts = [f"\\fB{name}\\fP, part {n}, {about}: {n * name}." for n in range(paragraphs)]
    return "\n.PP\n".join([f'.TH {name} 1\n.\\" a comment', *texts])


def test_pages_become_packs_and_a_benchmark(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "man" / "de" / "man1"
    folder.mkdir(parents=True)
    names = [f"tool{'abcdefghij'[i % 10]}{i}" for i in range(60)]
    for name in names:
        (folder / f"{name}.1.gz").write_bytes(gzip.compress(page(name).encode()))
    (folder / "short.1.gz").write_bytes(gzip.compress(page("short", 3).encode()))
    parts = runpy.run_path(str(SCRIPT))
    parts["main"].__globals__["MAN"] = tmp_path / "man"
    words = ["manpages.py", str(tmp_path / "packs"), "--languages", "de", "fi", "--dim", "32"]
    monkeypatch.setattr(sys, "argv", words)
    parts["main"]()
    said = capsys.readouterr().out
    assert "of 60 pages to train on, 960 paragraphs" in said
    assert "fi: 0 pages are too few; left out" in said
    pack = open_pack(tmp_path / "packs" / "de")
    assert pack.kind == Arrays((32,))
    assert "short.1" not in pack.class_names
    benchmark = load_benchmark(str(tmp_path / "packs" / "manpages.toml"))
    assert benchmark.segments[0].steps == 5 * len(pack.classes("train"))
    assert list(open_packs(benchmark)) == ["de"]


def test_macros_and_escapes_are_no_text(tmp_path):
    parts = runpy.run_path(str(SCRIPT))
    file = tmp_path / "x.1.gz"
    text = '.SH NAME\nx \\- \\fIdoes\\fR\n.B "bold word"\nmore\n.TP\n.ig\nlast\n'
    file.write_bytes(gzip.compress(text.encode()))
    found = [one for one in parts["paragraphs"](file) if one]
    assert found == ["x - does bold word more", "last"]
