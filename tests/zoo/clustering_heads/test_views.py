"""The views of the 4 × 4 figure fit the network, and make a page."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads import recipes, views
from tplimits.zoo.clustering_heads.task import SparseModularAddition
from tplimits.zoo.networks.sparse_modular_addition import sparse_modular_addition

TASK = SparseModularAddition()


def test_a_recording_makes_the_page_of_sixteen_panels(tmp_path):
    x, probes = TASK.draw(16), TASK.probes()
    rec = tp.watch(
        sparse_modular_addition,
        x,
        error=tp.cross_entropy(TASK.labels(x)),
        steps=2,
        every=1,
        widths=(8,),
        probes=probes,
        labels=TASK.labels(probes),
        **recipes.recipe(tp.Adam(), 0.003),
    )
    panels = views.figure(TASK, probes)
    assert len(panels) == 1 + 16
    rec.page(tmp_path / "run.html", views=panels)
    assert (tmp_path / "run.html").stat().st_size > 50_000
    with pytest.raises(EvaluationError, match="held-out loss"):  # there is nothing held out
        rec.page(tmp_path / "other.html", views=views.figure(TASK, probes, held_out=True))
    assert not (tmp_path / "other.html").exists()


def test_probes_with_one_prefix_have_one_colour_and_orders_of_it_a_paler_one():
    probes = np.array([[0, 0, 1, 1, 0, *[0] * 7], [0, 0, 1, 1, 0, *[1] * 7], [1, 0, 1, 0, 0, *[0] * 7], [1] * 12])
    shown = views.figure(TASK, probes)[0]
    assert list(shown.colours) == [0, 0, 0.5, 1]
    assert list(shown.marks) == [1, 1, 1, 0]
    assert shown.texts[0] == "001100000000"
