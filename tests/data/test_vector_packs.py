"""Packs of vectors: from files of every kind and from datasets, whatever their size and order."""

import json
import tracemalloc

import numpy as np
import pytest
import torch

from metadrift.cli import main
from metadrift.data import any_order
from metadrift.data.any_order import pack_from_blocks, pack_from_dataset
from metadrift.data.example_files import Block
from metadrift.data.pack import open_pack
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Arrays, Pictures

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)
LABELS = ["b", "a", "c"] * 4
SPLITS = {"a": "train", "b": "val", "c": "test"}


def csv_file(folder, rows=ROWS, labels=LABELS, head="x,y,label,split"):
    lines = [f"{a},{b},{c},{SPLITS[c]}" for (a, b), c in zip(rows, labels, strict=True)]
    (folder / "v.csv").write_text("\n".join([head, *lines]) + "\n")
    return folder / "v.csv"


def npz_file(folder, **more):
    arrays = {"examples": ROWS, "labels": np.array(["abc".index(one) for one in LABELS])}
    arrays |= {"names": np.array(["a", "b", "c"]), "class_split": np.array(list(SPLITS.values()))}
    np.savez_compressed(folder / "v.npz", **(arrays | more))
    return folder / "v.npz"


def npy_file(folder):
    np.save(folder / "v.npy", ROWS.astype(np.float64))
    (folder / "labels.txt").write_text("\n".join(LABELS))
    return folder / "v.npy"


def parquet_file(folder):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"features": ROWS.tolist(), "label": LABELS, "split": [SPLITS[one] for one in LABELS]}
    parquet.write_table(arrow.table(table), folder / "v.parquet")
    return folder / "v.parquet"


def imported(source, folder, *words):
    assert main(["data", "import", "vectors", str(source), "--out", str(folder), *words]) == 0
    return open_pack(folder / "v")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (csv_file, ["--split-column", "split"]),
        (npz_file, []),
        (npy_file, ["--labels", "labels.txt"]),
        (parquet_file, ["--split-column", "split"]),
    ],
)
def test_every_kind_of_file_gives_the_same_pack(tmp_path, monkeypatch, make, words):
    monkeypatch.chdir(tmp_path)
    pack = imported(make(tmp_path), tmp_path / "data", *words)
    assert pack.kind == Arrays((2,))
    assert sorted(pack.class_names) == ["a", "b", "c"]
    if make is not npy_file:
        assert dict(zip(pack.class_names, pack.class_split, strict=True)) == SPLITS
    for c, name in enumerate(pack.class_names):
        found = pack.examples[pack.class_offsets[c] : pack.class_offsets[c + 1]]
        np.testing.assert_array_equal(found, ROWS[[one == name for one in LABELS]])


def test_half_numbers_and_a_number_per_class_are_kept(tmp_path):
    pack = imported(
        csv_file(tmp_path),
        tmp_path,
        "--split-column",
        "split",
        "--dtype",
        "float16",
        "--per-class",
        "2",
    )
    assert pack.kind == Arrays((2,), "float16")
    assert len(pack.examples) == 6


def refused(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(main(["data", "import", "vectors", *map(str, words)]))
    assert stopped.value.code in (1, 2)
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def test_wrong_files_are_refused_in_a_sentence_and_leave_nothing(tmp_path, capsys):
    out = tmp_path / "data"
    source = csv_file(tmp_path)
    (tmp_path / "empty.csv").touch()
    assert "empty.csv is empty; its first" in refused(capsys, tmp_path / "empty.csv", "--out", out)
    assert "no column 'kind'" in refused(capsys, source, "--out", out, "--label-column", "kind")
    assert "column 'split': 'val' is not a number" in refused(capsys, source, "--out", out)
    assert "--size is not for vectors; it is for pictures" in refused(
        capsys, source, "--out", out, "--size", 28
    )
    bad = ROWS.copy()
    bad[3, 1] = np.nan
    csv_file(tmp_path, bad)
    text = refused(capsys, source, "--out", out, "--split-column", "split")
    assert "row 4 holds a number that is NaN or infinite" in text
    csv_file(tmp_path, ROWS * 1e6)
    words = [source, "--out", out, "--split-column", "split", "--dtype", "float16"]
    assert "is too large for float16" in refused(capsys, *words)
    npz_file(tmp_path, labels=np.zeros(5, int))
    assert "5 labels" in refused(capsys, tmp_path / "v.npz", "--out", out)
    np.savez(tmp_path / "w.npz", images=ROWS)
    assert "must hold the arrays examples and labels; it holds images" in refused(
        capsys, tmp_path / "w.npz", "--out", out
    )
    npy_file(tmp_path)
    assert "give --labels FILE" in refused(capsys, tmp_path / "v.npy", "--out", out)
    assert "there is no file" in refused(capsys, tmp_path / "none.csv", "--out", out)
    (tmp_path / "v.txt").write_text("1")
    assert "none of .npz, .npy, .csv, .parquet" in refused(capsys, tmp_path / "v.txt", "--out", out)
    assert not out.exists() or not list(out.iterdir())


def test_vector_options_are_refused_for_pictures(tmp_path, capsys):
    assert main(["data", "import", "folder", str(tmp_path), "--dtype", "float16"]) == 2
    assert "--dtype is not for folder; it is for vectors" in capsys.readouterr().err


def test_a_class_belongs_to_one_split(tmp_path):
    blocks = [Block(np.zeros((2, 3), np.float32), ["a", "a"], ["train", "test"])]
    with pytest.raises(MetadriftError, match="'a' is in the splits train and test"):
        pack_from_blocks(blocks, tmp_path / "p")
    assert not list(tmp_path.iterdir())


class Numbers(torch.utils.data.Dataset):
    classes = ("even", "odd")

    def __init__(self, items, length=4):
        self.items, self.length = items, length

    def __len__(self):
        return self.items

    def __getitem__(self, i):
        return torch.full((self.length,), float(i)), torch.tensor(i % 2)


def test_a_torch_dataset_becomes_a_pack(tmp_path):
    pack = pack_from_dataset(Numbers(7), tmp_path / "p", splits={"odd": "test", "even": "train"})
    assert pack.class_names == ["even", "odd"]
    assert pack.examples[:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5]


def test_pictures_of_a_dataset_stay_pictures(tmp_path):
    pairs = [(torch.full((3, 8, 8), i, dtype=torch.uint8), i % 2) for i in range(4)]
    pack = pack_from_dataset(pairs, tmp_path / "p")
    assert pack.kind == Pictures(8)
    assert sorted(pack.images[:, 0, 0, 0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (5, "an iterable of .* pairs, not int"),
        ({"a": np.zeros(2)}, "an iterable of .* pairs, not dict"),
        ([1], "must be a pair"),
        ([(np.zeros(2), 0.5)], "whole number or text"),
        ([(np.zeros(2), 0), (np.zeros(3), 1)], r"example 1 is float32 \[3\], the first is"),
        ([(np.array([np.inf]), 0)], "not finite"),
        ([("text", 0)], "must be an array of numbers"),
        ([(np.zeros(2), 0)], "a pack needs at least 2"),
    ],
)
def test_wrong_datasets_are_refused_in_a_sentence(tmp_path, pairs, says):
    with pytest.raises((MetadriftError, UsageError), match=says):
        pack_from_dataset(pairs, tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_a_dataset_larger_than_the_room_is_streamed(tmp_path, monkeypatch):
    """48 MB of examples pass through less than 20 MB of memory."""
    peak = []

    def opened(path):
        peak.append(tracemalloc.get_traced_memory()[1])  # reading pack.json has a buffer of its own
        return open_pack(path)

    monkeypatch.setattr(any_order, "open_pack", opened)
    tracemalloc.start()
    try:
        pack = pack_from_dataset(Numbers(3000, 4096), tmp_path / "p")
    finally:
        tracemalloc.stop()
    assert pack.examples.nbytes > 48e6
    assert peak[0] < 20e6


def test_vectors_run_and_classify_and_report_from_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for domain in ("one", "two"):
        lines = ["a,b,c,d,label,split"]
        for c in range(9):
            split = ("train", "val", "test")[c % 3]
            centre = rng.normal(size=4) * 3
            lines += [
                ",".join(f"{x:.4f}" for x in centre + rng.normal(size=4)) + f",class {c},{split}"
                for _ in range(6)
            ]
        (tmp_path / f"{domain}.csv").write_text("\n".join(lines))
        words = ["--out", tmp_path / "data", "--split-column", "split"]
        assert (
            main(["data", "import", "vectors", *map(str, [tmp_path / f"{domain}.csv", *words])])
            == 0
        )
    bench = '[[segments]]\ndomain = "one"\nsteps = 4\n[[segments]]\ndomain = "two"\nsteps = 4\n'
    (tmp_path / "b.toml").write_text("memory = 3\n" + bench)
    words = ["--benchmark", tmp_path / "b.toml", "--data", tmp_path / "data", "--ways", 3]
    words += ["--queries", 3, "--test-tasks", 5, "--stage-tasks", 2, "--out", tmp_path / "runs"]
    assert main(["run", *map(str, words), "--name", "r", "--learn.filters", "8"]) == 0
    run = tmp_path / "runs" / "r"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["example"] == {"dtype": "float32", "shape": [4]}
    assert 'backbone = "mlp"' in (run / "config.toml").read_text()
    capsys.readouterr()
    support = tmp_path / "few.csv"
    lines = (tmp_path / "one.csv").read_text().splitlines()
    support.write_text("\n".join(line.rpartition(",")[0] for line in lines))
    words = ["--run", run, "--support", support, "--query", support, "--json"]
    assert main(["classify", *map(str, words)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["queries"]) == 54
    assert found["accuracy"] > 0.5
    assert main(["report", str(run)]) == 0
    assert main(["data", "list", "--data", str(tmp_path / "data")]) == 0
    assert "float32 vectors of 4" in capsys.readouterr().out
    assert main(["data", "preview", str(tmp_path / "data" / "one")]) == 2
    assert "a preview is for pictures, and these examples are float32" in capsys.readouterr().err
    shifted = ["run", "--benchmark", str(tmp_path / "b.toml"), "--data", str(tmp_path / "data")]
    shifted += ["--ways", "3", "--queries", "3", "--transform.shift", "0.2"]
    assert main([*shifted, "--out", str(tmp_path / "runs")]) == 2
    assert "--transform.shift is for pictures" in capsys.readouterr().err
