"""What `tplimits classify` says in its short answer."""

from __future__ import annotations

from tplimits.cli import main

NETWORKS = """
import tplimits as tp

@tp.network
def jump(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * x * tp.sign(tp.avg(x * y))

@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))
"""


def test_the_short_answer_says_where_the_start_has_no_limit(tmp_path, capsys):
    (tmp_path / "nets.py").write_text(NETWORKS, encoding="utf-8")
    said = {}
    for name in ("jump", "plain"):
        assert main(["classify", f"{tmp_path / 'nets.py'}:{name}", "--parametrization", "ntp"]) == 0
        said[name] = capsys.readouterr().out
    assert all("trained by SGD(momentum=0): operator" in out for out in said.values())
    assert "no limit at the start is derived: instruction 8" in said["jump"]
    assert "no limit" not in said["plain"] and "lr × n" in said["plain"]
