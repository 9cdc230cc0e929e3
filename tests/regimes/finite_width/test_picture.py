"""Pictures of expansions: what is drawn is what is stated."""

import numpy as np
import pytest
from expanded import tied

import tplimits as tp

NAME = "return[1]"


@pytest.fixture(scope="module")
def found():
    return tp.derive(tied, tp.FiniteWidth())


def test_a_line_a_band_and_bars(found, tmp_path):
    pytest.importorskip("matplotlib")
    figure = found.plot(NAME, tmp_path / "expansion.svg")
    left, right = figure.axes
    x, y = left.get_lines()[0].get_data()
    np.testing.assert_allclose((y - float(found.limit(NAME))) / x, float(found.bias(NAME)))
    assert left.get_lines()[1].get_ydata()[0] == float(found.limit(NAME))
    band = left.collections[0].get_paths()[0].vertices
    above = max(v for u, v in band if u == x[-1])
    np.testing.assert_allclose((above - y[-1]) ** 2 / x[-1], float(found.covariance(NAME)))
    widths = [bar.get_width() for bar in right.patches]
    assert abs(sum(widths) - float(found.bias(NAME))) < 1e-12
    assert [abs(w) for w in widths] == sorted(map(abs, widths), reverse=True)
    assert "1/n" in (tmp_path / "expansion.svg").read_text()


def test_the_page_shows_scalars_against_the_width(found):
    assert found.report().picture.count("<polyline") == 2
    assert "return[1]" in found.report().picture


def test_no_picture_without_constants():
    @tp.program
    def scaled(x: tp.Vector, *, c):
        return tp.avg((c * x) ** 2)

    limit = tp.derive(scaled, tp.FiniteWidth())
    assert limit.report().picture == ""
    pytest.importorskip("matplotlib")
    assert len(limit.plot("return", c=2).axes) == 2
