"""`tplimits depth`: what deep networks of a block do to correlations and gradients."""

from __future__ import annotations

import json

from tplimits.cli import main

BLOCK = """
import tplimits as tp

@tp.block
def linear(x: tp.State["token"], W: tp.Matrix):
    return W @ x

@tp.block
def normed(x: tp.State["token"], W: tp.Matrix):
    return tp.layers.rms_norm(x + W @ x)

@tp.program
def plain(x: tp.Vector):
    return tp.avg(x)
"""


def test_correlations_and_gradients(tmp_path, capsys):
    (tmp_path / "blocks.py").write_text(BLOCK, encoding="utf-8")
    target, page = f"{tmp_path / 'blocks.py'}:linear", tmp_path / "gradients.json"
    drawn = tmp_path / "gradients.html"
    asked = ["--depth", "10", "--width", "40", "--paths", "128", "--json", str(page), "--html", str(drawn)]
    assert main(["depth", target, *asked]) == 0
    shown = capsys.readouterr().out
    assert "correlation of tokens 0 and 1, 0.2 at the start" in shown
    assert "linear at depth = 0.25 × width" in shown and "gradient of" in shown
    shown = drawn.read_text(encoding="utf-8")  # correlations of tokens, and gradients along depth
    assert "E V[0, 1]" in shown and "place along depth" in shown and shown.count("<svg") >= 3
    document = json.loads(page.read_text(encoding="utf-8"))
    assert document["format"] == "tplimits gradients" and {row["of"] for row in document["rows"]} >= {"input", "W"}


def test_blocks_with_norms_have_correlations_alone(tmp_path, capsys):
    (tmp_path / "blocks.py").write_text(BLOCK, encoding="utf-8")
    assert main(["depth", f"{tmp_path / 'blocks.py'}:normed", "--depth", "10", "--width", "40", "--paths", "128"]) == 0
    shown = capsys.readouterr().out
    assert "correlation of tokens 0 and 1, 0.2 at the start" in shown and "gradients: not derived" in shown


def test_what_is_no_block_is_refused(tmp_path, capsys):
    (tmp_path / "blocks.py").write_text(BLOCK, encoding="utf-8")
    assert main(["depth", f"{tmp_path / 'blocks.py'}:plain"]) == 2
    assert "is no block" in capsys.readouterr().err


def test_the_drift_of_tangents_is_derived_from_the_command_line(tmp_path, capsys):
    (tmp_path / "blocks.py").write_text(BLOCK, encoding="utf-8")
    assert main(["derive", f"{tmp_path / 'blocks.py'}:linear", "--regime", "depth", "--tangent"]) == 0
    assert "SDE of tokens and tangents of linear" in capsys.readouterr().out
