import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.storage.reading import (
    SETTINGS,
    parse_json,
    parse_toml,
    read_json,
    read_json_lines,
    read_text,
)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "cannot be read as JSON: Expecting"),
        (b"[1]", "must hold a JSON object"),
        (b'{"a": "\xff"}', "is not UTF-8 text: byte 7 is wrong"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "the number 100000000... has 5001 digits"),
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": -Infinity}', "-Infinity is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": "\\ud800"}', "half of a character"),
        (b'{"\\uD800": 1}', "half of a character"),
        (b" " * (2 * SETTINGS), "larger than 1 MiB"),
    ],
)
def test_a_damaged_json_file_gets_one_sentence(tmp_path, data, says):
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(MetadriftError, match=says) as raised:
        read_json(tmp_path / "x.json", SETTINGS)
    assert str(raised.value).startswith(str(tmp_path / "x.json"))


def test_pairs_of_surrogates_are_characters():
    assert parse_json(r'{"a": "\ud83d\ude00"}', "x") == {"a": "😀"}


def test_numbers_that_are_not_finite_can_be_allowed(tmp_path):
    (tmp_path / "x.json").write_text('{"a": NaN, "b": 1e999}')
    found = read_json(tmp_path / "x.json", finite=False)
    assert found["a"] != found["a"]
    assert found["b"] == float("inf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = ", "cannot be read as TOML: Invalid value"),
        ("a = " + "[" * 9000, "nested too deeply"),
        ("a = 1" + "0" * 5000, "a number is too long"),
    ],
)
def test_a_damaged_toml_text_gets_one_sentence(text, says):
    with pytest.raises(MetadriftError, match=says):
        parse_toml(text, "x.toml")


def test_pipes_folders_devices_and_missing_files_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        with pytest.raises(MetadriftError, match="is not a regular file"):
            read_text(tmp_path / name)
    with pytest.raises(MetadriftError, match="is missing"):
        read_text(tmp_path / "nowhere")
    with pytest.raises(MetadriftError, match="cannot be read: File name too long"):
        read_text(tmp_path / ("x" * 300))
    with pytest.raises(MetadriftError, match="cannot be read: embedded null"):
        read_text(tmp_path / "a\0b")


def test_damaged_lines_are_refused_by_number_or_left_out_and_named(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"a": 1}\n{"a": \n[2]\n\xff\n{"a": 3}\n{"half')
    with pytest.raises(MetadriftError, match=r"x\.jsonl, line 2: cannot be read as JSON"):
        read_json_lines(tmp_path / "x.jsonl")
    damaged: list[str] = []
    assert read_json_lines(tmp_path / "x.jsonl", damaged=damaged) == [{"a": 1}, {"a": 3}]
    assert [text.split(", ")[1].split(":")[0] for text in damaged] == ["line 2", "line 3", "line 4"]


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_sentence(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("any") / "x"
    file.write_bytes(data)
    for read in (read_json, read_json_lines):
        try:
            read(file)
        except MetadriftError:
            continue
