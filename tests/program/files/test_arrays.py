"""Files of arrays: what is written is read, and nothing else is believed."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.files.arrays import _array, flat, nested, pack, read, unpack

ARRAYS = {
    "float": np.linspace(0, 1, 5),
    "empty": np.empty((0, 3)),
    "number": np.array(7),
    "text": np.array(["ẑ", "ab"]),
    "truth": np.array([[True, False]]),
    "single": np.ones((2, 3), dtype=np.float32),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "complex": np.array([1j]),
    "other/bytes": np.arange(3, dtype=">i4"),
}


@pytest.mark.parametrize("compressed", [True, False])
def test_what_is_packed_is_unpacked(tmp_path, compressed):
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        pack(file, ARRAYS, compressed)
    found = unpack(path)
    assert list(found) == list(ARRAYS)
    assert all(np.array_equal(found[name], a) and found[name].dtype == a.dtype for name, a in ARRAYS.items())
    assert read(path).keys() == found.keys()


def test_the_same_arrays_give_the_same_bytes():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        pack(file, ARRAYS, compressed=True)
    assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize("name", ARRAYS)
def test_single_arrays_are_read(tmp_path, name):
    np.save(tmp_path / "a.npy", ARRAYS[name])
    assert np.array_equal(read(tmp_path / "a.npy"), ARRAYS[name])


def test_dictionaries_are_flattened_and_nested():
    state = {"a": {"b": {"c": 1}, "empty": {}}, "d": np.ones(2)}
    flattened = flat(state)
    assert list(flattened) == ["a/", "a/b/", "a/b/c", "a/empty/", "d"]
    assert flat(nested(flattened)).keys() == flattened.keys()
    with pytest.raises(ValueError, match="an array and a folder of arrays"):
        nested({"a": np.ones(1), "a/b": np.ones(1)})


@pytest.mark.parametrize(
    "wrong", [b"", b"text", b"\x93NUMPY", b"\x93NUMPY\x09\x00", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 17]
)
def test_other_files_are_refused(tmp_path, wrong):
    (tmp_path / "a").write_bytes(wrong)
    with pytest.raises(tp.EvaluationError, match="it is damaged or no file of arrays"):
        read(tmp_path / "a")


@pytest.mark.parametrize("dtype", [object, "datetime64[s]", [("a", float)], "S3", "V4"])
def test_entries_are_numbers_or_text(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.zeros(2, dtype=dtype), allow_pickle=True)
    with pytest.raises(tp.EvaluationError, match="an array of type"):
        read(tmp_path / "a.npy")


def test_what_follows_an_array_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(b"more")
    with pytest.raises(tp.EvaluationError, match="with other bytes than that"):
        read(tmp_path / "a.npy")


def test_encrypted_and_repeated_members_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", b"")
    with pytest.raises(tp.EvaluationError, match="stands twice"):
        unpack(tmp_path / "a.npz")
    content = io.BytesIO()
    pack(content, {"a": np.ones(2)})
    marked = bytearray(content.getvalue())
    marked[6] |= 1  # "encrypted", in the header of the member and in the directory
    marked[marked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "b.npz").write_bytes(marked)
    with pytest.raises(tp.EvaluationError, match="damaged or no file of arrays"):
        unpack(tmp_path / "b.npz")


def test_files_that_are_not_there_are_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")


@pytest.mark.parametrize("behind", [b"", b"PK and words, and more of them, longer than the record of the end is"])
def test_a_list_of_members_that_is_too_long_is_refused_before_it_is_read(tmp_path, behind):
    content = io.BytesIO()
    pack(content, {"a": np.ones(2)})
    marked = bytearray(content.getvalue())
    end = marked.rindex(b"PK\x05\x06")
    marked[end + 12 : end + 16] = (1 << 30).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(marked + behind)
    with pytest.raises(tp.EvaluationError, match="a list of members of more than"):
        unpack(tmp_path / "a.npz")


def test_a_long_list_of_members_has_its_length_in_a_record_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 0)
    content = io.BytesIO()
    pack(content, {"a": np.arange(3.0)})
    marked = bytearray(content.getvalue())
    end = marked.rindex(b"PK\x05\x06")
    assert marked[end - 20 : end - 16] == b"PK\x06\x07"
    marked[end + 12 : end + 16] = b"\xff" * 4  # "see there"
    (tmp_path / "a.npz").write_bytes(marked)
    assert unpack(tmp_path / "a.npz")["a"].tolist() == [0.0, 1.0, 2.0]
    record = marked.rindex(b"PK\x06\x06")
    marked[record + 40 : record + 48] = (1 << 40).to_bytes(8, "little")
    (tmp_path / "b.npz").write_bytes(marked)
    with pytest.raises(tp.EvaluationError, match="a list of members of more than"):
        unpack(tmp_path / "b.npz")


@pytest.mark.parametrize("missing", [1, 8, 23])
def test_members_that_end_before_their_stated_size_are_refused(missing):
    content = io.BytesIO()
    np.save(content, np.arange(3.0))
    whole = content.getvalue()
    assert _array(io.BytesIO(whole), len(whole)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match=r"an array of float64 of shape \(3,\) that ends early"):
        _array(io.BytesIO(whole[:-missing]), len(whole))
