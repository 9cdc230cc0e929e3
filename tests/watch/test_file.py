"""The file of a recording: whole, small, and read with suspicion."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from watched import X, deep, inputs, same, watched

import tplimits as tp


@pytest.fixture(scope="module")
def rec():
    return watched(labels=np.arange(8))


@pytest.fixture(scope="module")
def saved(rec, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.npz"
    rec.save(path)
    return path


def members(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(path, found: dict[str, bytes]):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in found.items():
            archive.writestr(name, content)
    return path


def npy(array, allow_pickle=False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def header_of(found) -> dict:
    return json.loads(np.load(io.BytesIO(found["header.npy"])).tobytes())


def with_header(path, found, header) -> object:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return packed(path, {**found, "header.npy": npy(np.frombuffer(text, dtype=np.uint8))})


def test_what_is_written_is_read(rec, saved):
    assert same(tp.load_recording(saved), rec)
    assert tp.load_recording(saved).labels.tolist() == list(range(8))


def test_the_same_recording_gives_the_same_bytes(rec, saved, tmp_path):
    rec.save(tmp_path / "again.npz")
    watched(tmp_path / "as it goes.npz", labels=np.arange(8))
    assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()
    assert (tmp_path / "as it goes.npz").read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.npz", "as it goes.npz"]


def test_limits_with_matrices_are_read_back(tmp_path):
    how = {"error": tp.squared_error(inputs(4, 3, seed=1)), "optimizer": tp.SGD(), "lr": 0.2, "steps": 1}
    for table in (tp.MUP, tp.NTP):
        found = tp.watch(deep, X[:4], **how, widths=(4, tp.inf), particles=256, replicates=2, parametrization=table)
        found.save(tmp_path / "run.npz")
        assert same(tp.load_recording(tmp_path / "run.npz"), found)


def test_a_thousand_frames_of_a_small_network_are_small(tmp_path):
    """Width 32 of four numbers a neuron, and samples of its limit: up to 2 MB each, less where training ends."""
    for widths in (32, tp.inf):
        path = tmp_path / f"{widths}.npz"
        found = watched(
            path, steps=1000, widths=widths, seeds=1, particles=256, error=tp.squared_error(np.sin(X[:, 0]))
        )
        assert len(found.steps) == 1001
        assert 1e5 < path.stat().st_size < 2e6


def test_a_truncated_file_is_refused_wherever_it_ends(saved, tmp_path):
    whole, path = saved.read_bytes(), tmp_path / "run.npz"
    ends = {*range(0, len(whole), max(1, len(whole) // 97)), *range(len(whole) - 60, len(whole))}
    for end in sorted(ends):
        path.write_bytes(whole[:end])
        with pytest.raises(tp.EvaluationError, match=r"run\.npz: "):
            tp.load_recording(path)


def test_a_damaged_file_is_refused_or_the_same(rec, saved, tmp_path):
    whole, path, rng = saved.read_bytes(), tmp_path / "run.npz", np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(whole), 150):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << int(rng.integers(8)))]) + whole[at + 1 :])
        try:
            assert same(tp.load_recording(path), rec)
        except tp.EvaluationError:
            refused += 1
    assert refused > 100


class _Bomb:
    """What a pickle would run."""

    def __reduce__(self):
        return exec, ("raise SystemExit('a file was executed')",)


@pytest.mark.parametrize("name", ["header.npy", "0.npy"])
def test_pickles_are_never_opened(saved, tmp_path, name):
    found = members(saved)
    array = np.array([_Bomb()], dtype=object)
    with pytest.raises(tp.EvaluationError, match="an array of type object"):
        tp.load_recording(packed(tmp_path / "run.npz", {**found, name: npy(array, allow_pickle=True)}))
    with pytest.raises(tp.EvaluationError):
        tp.load_recording(packed(tmp_path / "run.npz", {**found, name: pickle.dumps(_Bomb())}))


def test_members_are_arrays_once_each(saved, tmp_path):
    found = members(saved)
    for extra in ("../../evil.npy", "/etc/evil.npy", "more.npy"):
        with pytest.raises(tp.EvaluationError, match="1 arrays that its header does not name"):
            tp.load_recording(packed(tmp_path / "run.npz", {**found, extra: npy(np.ones(3))}))
    with pytest.raises(tp.EvaluationError, match=r"a member 'run\.sh' that is no array"):
        tp.load_recording(packed(tmp_path / "run.npz", {**found, "run.sh": b"true"}))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.npz"]


def test_sizes_that_files_claim_are_not_believed(saved, tmp_path):
    found = members(saved)
    for shape in (b"(9999999999999,)", b"(-3,)", b"(3, 3)", b"3", b"('a',)", b"(True,)"):
        head = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + b", }"
        head = head.ljust(117) + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\0" * 24
        with pytest.raises(tp.EvaluationError, match="damaged or no file of arrays"):
            tp.load_recording(packed(tmp_path / "run.npz", {**found, "0.npy": content}))


def test_what_unpacks_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    from tplimits.program.files import arrays

    monkeypatch.setattr(arrays, "MAX_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "run.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", npy(np.zeros(1 << 18)))
    with pytest.raises(tp.EvaluationError, match="it unpacks to 2097280 bytes, from 2251: more than is read"):
        tp.load_recording(tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not JSON"),
        (b"[]", "it must be an object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{" * 1000, "levels of nesting"),
        (b'{"format": "tplimits program"}', "this version reads 'tplimits recording'"),
        (b'{"format": "tplimits recording", "version": "2"}', "this version reads '1'"),
        (b'{"format": "a", "format": "b"}', "stands twice in one object"),
        (b'{"a": NaN}', "the bare number"),
        (b'{"a": 1e999}', "numbers are finite"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a whole number of 5000 digits"),
    ],
)
def test_headers_that_are_no_headers_are_refused(saved, tmp_path, text, said):
    with pytest.raises(tp.EvaluationError, match=said):
        tp.load_recording(with_header(tmp_path / "run.npz", members(saved), text))


def _changed(header, change):
    change(header)
    return header


def _program(header, word, other):
    assert word in header["program"]
    header["program"] = header["program"].replace(word, other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h.pop("runs"), "'runs' is missing"),
        (lambda h: h.update(more="x"), "unknown field 'more'"),
        (lambda h: h.update(program="{}"), "'format' is missing"),
        (lambda h: h.update(program=7), "it must be text"),
        (lambda h: _program(h, '"tanh"', '"__import__"'), "tanh|__import__|unknown|word"),
        (lambda h: h.update(settings=[]), "settings: they are no object"),
        (lambda h: h["settings"].pop("a_out"), "a_out is missing"),
        (lambda h: h["settings"].update(a_out=True), "a_out is missing or no number"),
        (lambda h: h["settings"].update(a_out=-1e308), "a_out is -1e.308"),
        (lambda h: h["settings"].update(parametrization={}), "parametrization is no text"),
        (lambda h: h["settings"].update(particles="many"), "particles is no number"),
        (lambda h: h["settings"].update(schedules=5), "schedules: they are not those of the program"),
        (lambda h: h["settings"].update(ratios={"k": 2}), "a ratio of 'k'"),
        (lambda h: h["settings"].update(ratios={"n": -1}), "no positive numbers"),
        (lambda h: h.update(steps="99"), "the array '99' is missing, or named twice"),
        (lambda h: h.update(steps=h["probes"]["ξ"]), "no whole numbers|named twice"),
        (lambda h: h.update(probes={"x": h["probes"]["ξ"]}), "probes: probes has x"),
        (lambda h: h.update(probes={"ξ": ["0"]}), "the array .* is missing"),
        (lambda h: h["runs"][0].update(width="../8"), "the width '../8'"),
        (lambda h: h["runs"][0].update(width="-8"), "the width '-8'"),
        (lambda h: h["runs"][0].update(width="9"), "'U' has shape"),
        (lambda h: h["runs"][0].update(seed="1"), "width 8, seed 1 stands twice"),
        (lambda h: h["runs"][0]["parameters"].update(W=h["runs"][0]["parameters"].pop("U")), "the network has U, v, b"),
        (lambda h: _swap(h["runs"][0]["parameters"], "U", "v"), "'U' has shape"),
        (lambda h: h["runs"][0]["curves"].update({"x\n": h["runs"][0]["curves"].pop("loss")}), "is not a name"),
        (lambda h: h["runs"][0].update(values=h["runs"][0]["curves"], curves={}), "nothing named `loss`"),
        (lambda h: h.update(runs={}), "it must be a list of objects"),
    ],
)
def test_headers_that_do_not_fit_are_refused(saved, tmp_path, change, said):
    found = members(saved)
    with pytest.raises(tp.EvaluationError, match=said) as caught:
        tp.load_recording(with_header(tmp_path / "run.npz", found, _changed(header_of(found), change)))
    assert "\n" not in str(caught.value)


def _swap(found, one, other):
    found[one], found[other] = found[other], found[one]


def test_numbers_that_are_none_are_refused(saved, tmp_path):
    found = members(saved)
    key = header_of(found)["runs"][0]["parameters"]["v"] + ".npy"
    with pytest.raises(tp.EvaluationError, match="or is not finite"):
        tp.load_recording(packed(tmp_path / "run.npz", {**found, key: npy(np.full((7, 8), np.nan))}))
    with pytest.raises(tp.EvaluationError, match="has the type <U1"):
        tp.load_recording(packed(tmp_path / "run.npz", {**found, key: npy(np.full((7, 8), "x"))}))


def test_files_that_are_not_there_are_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        tp.load_recording(tmp_path / "nothing.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(tp.EvaluationError, match=r"other\.npz: it is no recording of tplimits"):
        tp.load_recording(tmp_path / "other.npz")
