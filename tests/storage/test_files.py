import os

import pytest

from metadrift.errors import MetadriftError
from metadrift.storage.files import new_folder, remove_unfinished, write_atomically
from metadrift.storage.lock import lock


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path):
    write_atomically(tmp_path / "a", "first")
    write_atomically(tmp_path / "a", b"\xff\x00")
    assert (tmp_path / "a").read_bytes() == b"\xff\x00"
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a", "\ud800")
    assert (tmp_path / "a").read_bytes() == b"\xff\x00"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path):
    with new_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("old")
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "a", replace=True) as folder:
        (folder / "nowhere" / "x").write_text("new")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a" / "x").read_text() == "old"


def test_a_folder_that_had_stepped_aside_when_the_program_was_killed_goes_back(tmp_path):
    (tmp_path / ".step-3.old.k2" / "step-3").mkdir(parents=True)
    (tmp_path / ".step-3.new.k1").mkdir()
    (tmp_path / ".other-3.new.k1").mkdir()
    remove_unfinished(tmp_path, r"step-\d+")
    assert sorted(os.listdir(tmp_path)) == [".other-3.new.k1", "step-3"]


def test_a_lock_file_that_is_a_link_is_refused_and_what_it_names_stays(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with (
        pytest.raises(MetadriftError, match=r"\.lock is a link"),
        lock(tmp_path / ".lock", "it is held"),
    ):
        pass
    assert (tmp_path / "victim").read_text() == "precious"
