"""The feature-learning limit as users meet it: settings, seeds, checkpoints, records, print-outs."""

import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.training.feature_learning import _derived

_DATA = np.random.default_rng(5)
X, Y = _DATA.standard_normal((3, 2)), _DATA.standard_normal(3)
ERROR = tp.squared_error(Y)
SMALL = {"error": ERROR, "lr": 0.1, "steps": 2, "particles": 256, "replicates": 2, "block": 64}


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar):
    return tp.readout(tp.sum(U * ξ, over="d")) + b


ADAM = tp.derive(two, tp.MaximalUpdate(tp.Adam(eps=0.05)))
SGD = tp.derive(two, tp.MaximalUpdate(tp.SGD()))


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"lr": -0.1}, "a learning rate is 0 or more"),
        ({"lr": float("nan")}, "finite number"),
        ({"lr": lambda t: -float(t)}, r"lr\(1\)=-1.0: a learning rate"),
        ({"lr": lambda: 0.1}, r"lr= is called as lr\(t\)"),
        ({"lr": {"U": 1.0, "W": 1.0}}, "no rate for `v`, trained by .*0 for none"),
        ({"error": lambda f, t, y: f}, r"called as error\(f\) or error\(f, t\)"),
        ({"error": lambda: 0.0}, r"called as error\(f\) or error\(f, t\)"),
        ({"steps": -1}, "steps=-1"),
        ({"steps": 1.5}, "steps=1.5"),
        ({"particles": 8}, "at least 4 particles|at least 16"),
        ({"replicates": 1}, "replicates=1"),
        ({"block": 1}, "block=1"),
        ({"seed": -1}, "seed"),
        ({"conditioning": "grey"}, "give one of the words 'white', 'lazy'"),
        ({"error": None}, "give a function"),
        ({"error": lambda f: f * np.nan}, "at step 0"),
        ({"error": tp.squared_error([1.0])}, "targets have shape"),
        ({"record": ("nothing",)}, "nothing"),
        ({"constants": {"γ": 1}}, "γ"),
        ({"constants": {"U": np.ones((2, 256))}}, "`U` is drawn"),
        ({"ratios": {"k": 1}}, "widths of `two` besides n are none"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, what):
    with pytest.raises(tp.TplimitsError, match=what):
        ADAM.evaluate(X, **{**SMALL, **changed})


def test_data_that_make_no_sense_are_refused():
    for data, what in (([[np.nan, 1.0]], "NaN"), ([1.0], "shape"), (np.zeros((0, 2)), "no input")):
        with pytest.raises(tp.EvaluationError, match=what):
            ADAM.evaluate(data, **SMALL)


def test_too_few_particles_for_the_columns_are_refused():
    many = np.random.default_rng(0).standard_normal((20, 20))
    asked = {**SMALL, "error": lambda f: f - 1}
    told = []
    for particles in (64, 128, 232):
        what = rf"particles={particles} for 60 columns of `W` \(20 inputs at 3 times\).* give particles=240 or more"
        with pytest.raises(tp.EvaluationError, match=what):
            ADAM.evaluate(many, **{**asked, "particles": particles}, progress=lambda *done: told.append(done))
    assert not told  # before anything is done
    assert ADAM.evaluate(many, **{**asked, "particles": 240}).steps == 2


def test_columns_that_repeat_others_need_no_particles():
    """Inputs that are proportional, rates that are 0: fewer columns than inputs times steps, and no refusal."""
    line = np.outer(np.linspace(-1, 1, 20), [1.0, 0.5])

    @tp.network
    def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W @ tp.sum(U * ξ, over="d"))

    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
    asked = {**SMALL, "error": lambda f: f - 1, "particles": 64}
    assert limit.evaluate(line, **{**asked, "steps": 9}).steps == 9
    still = {"U": 0.0, "W": 0.1, "v": 0.1}
    assert ADAM.evaluate(X, **{**SMALL, "particles": 48, "steps": 3, "lr": {**still, "W": 0.0, "v": 0.0}}).steps == 3
    with pytest.raises(tp.EvaluationError, match=r"particles=76 for 20 columns of `W`.* give particles=80 or more"):
        limit.evaluate(line, **{**asked, "particles": 76, "steps": 19})
    assert limit.evaluate(line, **{**asked, "particles": 80, "steps": 19}).steps == 19


def test_the_cost_of_a_long_run_is_known_before_its_first_step():
    """100 samples and 20 steps: 2,100 columns, from the first three times alone."""
    many = np.random.default_rng(0).standard_normal((100, 10))
    calls = []

    def error(f, t):
        calls.append(t)
        return f - 1

    with pytest.raises(tp.EvaluationError, match=r"particles=8192 for 2,100 columns of `W`.* give particles=8400"):
        ADAM.evaluate(many, error=error, lr=0.1, steps=20)
    assert calls == [0, 1]


def test_the_law_over_draws_of_a_scalar_is_an_outer_loop():
    limit = tp.derive(shifted, tp.MaximalUpdate(tp.SGD()))
    run = limit.evaluate(X, **SMALL, draws=5, seed=3)
    b = run.replicates[:, 0, 0]  # f_0 = b
    assert len(set(b.tolist())) == 5 and run.drawn == ("b",)
    for one, start in zip(run.replicates, b, strict=True):
        np.testing.assert_allclose(one, limit.evaluate(X, **SMALL, b=start).f, atol=1e-12)
    np.testing.assert_allclose(run.f, run.replicates.mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(run.stderr[0], b.std(ddof=1) / np.sqrt(5), atol=1e-15)
    many = limit.evaluate(X, **{**SMALL, "steps": 0}, draws=60)  # b is standard normal
    assert abs(many.f[0, 0]) < 4 * many.stderr[0, 0] < 0.8
    for other, said in (
        ({"draws": 1}, "draws=1: give a whole number, at least 2"),
        ({"b": 0.5, "draws": 3}, "all scalar parameters are given; nothing is drawn"),
        ({"checkpoint": "kept.npz"}, "`b` is drawn, and a file holds one draw: give b="),
    ):
        with pytest.raises(tp.EvaluationError, match=said):
            limit.evaluate(X, **SMALL, **other)
    with pytest.raises(tp.EvaluationError, match=r"scalar parameter `b` has no initial value.*give b="):
        tp.check(limit, X=X, error=SMALL["error"], lr=0.1, steps=1)


def test_a_scalar_has_the_start_that_is_given():
    limit = tp.derive(shifted, tp.MaximalUpdate(tp.SGD()))
    run = limit.evaluate(X, **SMALL, b=0.25)
    np.testing.assert_allclose(run.f[0], 0.25, atol=1e-12)
    χ = (0.25 - Y) / 3
    # f_1 = ⟨U_1|1⟩ξ + b_1: a vector of equal updates −η Σ χ ξ, and the scalar
    np.testing.assert_allclose(run.f[1], 0.25 - 0.1 * (X @ (X.T @ χ) + χ.sum()), atol=1e-12)


@pytest.mark.parametrize(
    ("regime", "what"),
    [
        (tp.MaximalUpdate("adam"), "no optimizer"),
        (tp.MaximalUpdate({"U": tp.SGD()}), "is not given"),
        (tp.MaximalUpdate(tp.SGD(), weight_decay=1), "below 1"),
        (tp.MaximalUpdate(tp.SGD(), weight_decay=-0.1), "below 1"),
        (tp.MaximalUpdate(tp.SGD(), weight_decay={"W": 0.1, "Z": 0}), "no trained parameter"),
    ],
)
def test_regimes_that_make_no_sense_are_refused(regime, what):
    with pytest.raises(tp.ProgramError, match=what):
        tp.derive(two, regime)


def test_an_axis_without_a_size_is_called_by_its_name():
    @tp.network
    def several(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["o"]):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    asked = {**SMALL, "error": lambda f: f}
    limit = tp.derive(several, tp.MaximalUpdate(tp.SGD()))
    for numbers in (limit.evaluate, lambda X, **asked: limit.exact(X, error=asked["error"], lr=0.1, steps=1)):
        with pytest.raises(tp.EvaluationError, match=r"`o` of `several` has no size: .*\.bind\(o=…\)"):
            numbers(X, **asked)
    sized = tp.derive(several.bind(o=2), tp.MaximalUpdate(tp.SGD()))
    assert sized.evaluate(X, **asked).f.shape == (3, 3, 2)


def test_symbols_have_no_numbers():
    symbolic = tp.derive(two, tp.MaximalUpdate(tp.SGD(momentum=sympy.Symbol("κ"))))
    with pytest.raises(tp.EvaluationError, match="κ has no value"):
        symbolic.evaluate(X, **SMALL)


def test_only_networks_have_a_training_limit():
    @tp.program
    def plain(x: tp.Vector):
        return tp.avg(x)

    with pytest.raises(tp.ProgramError, match="is no network"):
        tp.derive(plain, tp.MaximalUpdate(tp.SGD()))


def test_fluctuations_are_refused():
    @tp.network
    def logits(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.tanh(tp.avg(x * (W @ x)) * tp.sqrt(tp.n)) * x

    with pytest.raises(tp.NoLimitError, match="grows with n and gradients through"):
        tp.derive(logits, tp.MaximalUpdate(tp.SGD()))


def test_powers_that_vanish_and_ratios_of_widths():
    @tp.network
    def shaped(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d")) * (1 + 7 / tp.sqrt(tp.n))
        return v * tp.tanh(W @ x)

    found = tp.derive(shaped, tp.MaximalUpdate(tp.Adam(eps=0.05))).evaluate(X, **SMALL)
    np.testing.assert_allclose(found.f, ADAM.evaluate(X, **SMALL).f, atol=1e-10)


def test_adam_without_eps_is_allowed_and_remarked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = tp.Adam(eps=0)
    limit = tp.derive(two, tp.MaximalUpdate(optimizer))
    assert any(a.startswith("lost") and "pseudo-Lipschitz" in a for a in limit.assumptions)
    assert "lost: Adam" in repr(limit)
    assert np.isfinite(limit.evaluate(X, **SMALL).f).all()


def test_divergence_is_named():
    with pytest.raises(tp.EvaluationError, match=r"step \d: (the outputs|vectors) are not finite.*smaller lr"):
        SGD.evaluate(X, **{**SMALL, "error": lambda f: np.sign(f + 1) * 1e155, "lr": 1e155, "steps": 4})


def test_signals_that_are_lost_in_noise_move_nothing():
    """Adam moves every weight by 30: outputs are of order 30⁴, and the sign of what is left of them is luck."""

    @tp.network
    def cube(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W @ tp.tanh(tp.sum(U * ξ, over="d"))) ** 3

    limit = tp.derive(cube, tp.MaximalUpdate(tp.Adam(eps=0.05)))
    task = {"error": ERROR, "particles": 512, "block": 64, "replicates": 4}
    assert (limit.evaluate(X, lr=30.0, steps=1, **task).stderr[1] > 1).any()  # nothing rests on them yet
    with pytest.raises(tp.EvaluationError, match="error signals of step 1 are lost in noise"):
        limit.evaluate(X, lr=30.0, steps=2, **task)
    assert (limit.evaluate(X, lr=0.05, steps=3, **task).stderr < 0.05).all()


# -- reproducibility --------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers_on_any_executor():
    run = ADAM.evaluate(X, **SMALL)
    assert (ADAM.evaluate(X, **SMALL).f == run.f).all()
    assert (ADAM.evaluate(X, **SMALL, seed=1).f[1:] != run.f[1:]).any()
    with ProcessPoolExecutor(2) as executor:
        assert (ADAM.evaluate(X, **SMALL, executor=executor).f == run.f).all()


class _Interrupted(Exception):
    pass


@pytest.mark.parametrize("limit", [ADAM, SGD])
@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_an_interrupted_run_goes_on_from_its_checkpoint(limit, stop, tmp_path):
    file = tmp_path / "run.npz"
    asked = {**SMALL, "record": "x"}
    whole = limit.evaluate(X, **asked)

    def interrupt(done, total, text):
        if done >= stop:
            raise _Interrupted

    with pytest.raises(_Interrupted):
        limit.evaluate(X, **asked, checkpoint=file, progress=interrupt)
    seen = []
    resumed = limit.evaluate(X, **asked, checkpoint=file, progress=lambda done, total, text: seen.append(done))
    assert (resumed.f == whole.f).all()
    assert (resumed.replicates == whole.replicates).all()
    assert (resumed.ket("x") == whole.ket("x")).all()
    assert (resumed.gram("x") == whole.gram("x")).all()
    assert seen[-1] == 2 * 3


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    file = tmp_path / "run.npz"
    ADAM.evaluate(X, **SMALL, checkpoint=file)
    with pytest.raises(tp.EvaluationError, match="another run"):
        ADAM.evaluate(X, **SMALL, seed=1, checkpoint=file)
    with pytest.raises(tp.EvaluationError, match="another run"):
        ADAM.evaluate(X, **{**SMALL, "error": tp.squared_error(Y + 1)}, checkpoint=file)
    file.write_text("nothing of the kind")
    with pytest.raises(tp.EvaluationError, match="no checkpoint"):
        ADAM.evaluate(X, **SMALL, checkpoint=file)
    with pytest.raises(tp.EvaluationError, match="one process"):
        ADAM.evaluate(X, **SMALL, checkpoint=file, executor=ProcessPoolExecutor(1))


@pytest.mark.parametrize("asked", [{"executor": 3}, {"progress": np.ones(2)}], ids=["executor", "progress"])
def test_who_runs_it_and_whom_to_tell_are_checked(asked):
    with pytest.raises(tp.EvaluationError, match=r"=.*: give "):
        ADAM.evaluate(X, **SMALL, **asked)


# -- what a run holds -------------------------------------------------------------------------------


def test_kets_and_feature_kernels_of_all_times():
    run = ADAM.evaluate(X, **SMALL, record=("x", "h"))
    assert run.ket("x", 0).shape == (3, 256) and run.kets["h"].shape == (3, 3, 256)
    K = run.gram("x", 0)
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    np.testing.assert_allclose(run.gram("h", 0), K, atol=1e-10)  # white hats have the Gram matrix of their operands
    assert np.abs(run.gram("x", 2) - K).max() > 1e-3
    for read in (run.ket, run.gram):
        for t in (3, -4, 1.5):
            with pytest.raises(tp.EvaluationError, match=f"t={t}: there are the steps 0, …, 2"):
                read("x", t)
        assert (read("x", -3) == read("x", np.int64(0))).all()
    with pytest.raises(tp.EvaluationError, match="not recorded"):
        run.gram("v")


def test_a_run_is_shown_and_drawn(tmp_path):
    run = ADAM.evaluate(X, **SMALL)
    assert run.steps == 2 and run.f.shape == run.stderr.shape == (3, 3)
    assert "two, μ-limit: 2 steps, 3 outputs, 2 replicates" in repr(run)
    assert len(run.plot(tmp_path / "f.png").axes[0].lines) == 3
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_what_a_run_prints_are_its_numbers():
    """Sizes and errors at the start, after one step, in the middle and at the end, and the first four outputs."""
    settings = {**SMALL, "error": tp.squared_error(np.arange(6.0)), "steps": 5}
    run = ADAM.evaluate(np.random.default_rng(5).standard_normal((6, 2)), **settings)
    lines = repr(run).splitlines()[1:]
    for line, t in zip(lines, (0, 1, 2, 5), strict=True):
        sizes, outputs = line.removesuffix("…").split("; f = ")
        assert sizes.split(", ")[0].split() == ["t", "=", str(t), "rms", "f", f"{np.sqrt(np.mean(run.f[t] ** 2)):.4g}"]
        assert float(sizes.split("error ")[1]) == pytest.approx(np.sqrt(np.mean(run.stderr[t] ** 2)), rel=0.06)
        assert [float(x) for x in outputs.split(", ")] == pytest.approx(run.f[t][:4], rel=1e-3)


def test_rates_by_name_and_optimizers_by_name():
    mixed = tp.derive(two, tp.MaximalUpdate({"U": tp.SGD(), "W": tp.Adam(eps=0.05), "v": tp.SignSGD(eps=0.1)}))
    frozen = mixed.evaluate(X, **{**SMALL, "lr": {"U": 0, "W": 0, "v": 0}})
    assert np.abs(frozen.f).max() < 1e-12
    moved = mixed.evaluate(X, **{**SMALL, "lr": {"U": 0.1, "W": lambda t: 0.1 / (t + 1), "v": 0.1}})
    assert np.abs(moved.f[1]).max() > 1e-3


# -- print-outs -------------------------------------------------------------------------------------


def test_the_recursion_is_printed_with_and_without_the_initial_matrix():
    shown = repr(tp.derive(two, tp.MaximalUpdate(tp.Adam(eps=0.05), weight_decay=0.1)))
    for line in (
        "|h_t⟩      = |W_t x_t⟩",
        "|dx_t⟩     = |W_tᵀ dh_t⟩",
        "|W_{t+1}|  = 0.9 |W_t| − η Q_t(|dh_t⟩_χ_t⟨x_t|)",
        "|v_{t+1}⟩  = 0.9 |v_t⟩ − η Q_t(χ_t·|dv_t⟩)",
        "|h_t⟩      = 0.9^t |W_0 x_t⟩ − η Σ_{s<t} 0.9^(t−1−s) Q_s(|dh_s⟩_χ_s⟨x_s|) |x_t⟩",
        "|dx_t⟩     = 0.9^t |W_0ᵀ dh_t⟩ − η Σ_{s<t} 0.9^(t−1−s) Q_s(|dh_s⟩_χ_s⟨x_s|)ᵀ |dh_t⟩",
        "χ_t        = ε_t(f_t)",
    ):
        assert line in shown, shown


def test_powers_of_the_width_that_vanish_are_not_printed():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d", "k"], W: tp.Matrix["n", "k"], v: tp.Vector["n"]):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        h = W @ x
        ratio = tp.avg(x) * tp.width("k") / tp.n
        return v * (tp.tanh(h + v / tp.width("k")) * (1 + 2 / tp.sqrt(tp.n)) + ratio * h)

    limit = tp.derive(net, tp.MaximalUpdate(tp.SGD()))
    printed = repr(limit)
    assert (
        "= (|h_t⟩*ratio_t + tanh(|h_t⟩))*|v_t⟩\n" in printed and "= (1 - tanh(|h_t⟩)**2 + ratio_t)*|v_t⟩\n" in printed
    )
    assert "= k*_7_t/n\n" in printed and "sqrt(n)" not in printed
    assert r"\sqrt{n}" not in limit.latex()


def test_latex_is_ascii_and_balanced():
    for limit in (ADAM, tp.derive(shifted, tp.MaximalUpdate(tp.SGD()))):
        source = limit.latex()
        assert source.isascii()
        assert source.count("{") == source.count("}")
        assert r"\overline" in source and r"|{U}_{t+1}\rangle" in source
    assert r"\overline{|{\mathrm{dh}}_{s}\rangle_{\chi_{s}}\langle {x}_{s}|} |{x}_{t}\rangle" in ADAM.latex()
    assert ADAM._repr_latex_().startswith("$$")


def test_steps_and_citation():
    sections = {s.rule for s in ADAM.steps}
    assert sections == {"forward", "backward", "update", "unrolled"}
    assert "yang2023tensor" in ADAM.citation()


def test_what_grows_exponentially_loses_its_moments_by_steps_that_are_not_bounded():
    @tp.network
    def grows(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(tp.sum(U * ξ, over="d"))

    derived = [
        tp.derive(*of) for of in ((grows, tp.MaximalUpdate(tp.SGD())), (grows, tp.MaximalUpdate(tp.Adam(eps=1))))
    ]
    doubts = [limit.recursion.doubts for limit in (*derived, SGD)]
    assert [len(found) for found in doubts] == [1, 0, 0]
    assert "the moments of the start are lost after a step" in doubts[0][0].reason


def test_optimizers_are_told_apart_in_print():
    """By the names of their parameters, where there are several."""
    mixed = tp.derive(two, tp.MaximalUpdate({"U": tp.SGD(), "W": tp.Adam(eps=0.05), "v": tp.SGD()}))
    assert r"g\quad (\mathrm{U}, \mathrm{v})" in mixed.latex() and r"\quad (\mathrm{W})" in mixed.latex()
    assert r"\quad (\mathrm" not in ADAM.latex()


def test_derivations_ask_no_formula_of_an_adaptive_optimizer(monkeypatch):
    """It takes SymPy fifty times as long as all else."""

    def formula(self):
        raise AssertionError("asked")

    monkeypatch.setattr(tp.Adam, "formula", property(formula))
    assert tp.derive(two, tp.MaximalUpdate(tp.Adam(eps=0.07))).recursion.moving == ("U", "W", "v")


def test_the_report_shows_kernels_of_recorded_vectors():
    shown = ADAM.evaluate(X, record=("x",), **SMALL).report().picture
    assert "⟨x|x′⟩ at the end" in shown
    assert "at the end" not in ADAM.evaluate(X, **SMALL).report().picture


def test_reading_a_program_says_how_far_it_is():
    """Each instruction is told once, of as many as there are."""

    class Report:
        planned, steps = 0, ()

        def plan(self, total, what):
            self.planned = total

        def advance(self, more):
            self.steps += (more,)

    @tp.program
    def chain(W: tp.Matrix, x: tp.Vector):
        for _ in range(3):
            x = tp.tanh(W @ x)
        return tp.avg(x * x)

    report = Report()
    _derived(chain, 10**6, report)
    assert report.planned == len(chain) and set(report.steps) <= {0, 1} and sum(report.steps) == len(chain) - 1


def test_members_of_a_family_are_matrices_of_their_own():
    """Chosen by numbers they are two matrices, draw by draw; read together and looked up, four of three."""

    @tp.network
    def family(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "a", "b"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        for a, b in ((0, 1), (1, 0), (0, 1)):
            h = W.sel(a=a, b=b) @ tp.tanh(h)
        return v * tp.tanh(h)

    def alone(first, second, third):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
            h, of = tp.sum(U * ξ, over="d"), (W, V)
            for number in (first, second, third):
                h = of[number] @ tp.tanh(h)
            return v * tp.tanh(h)

        return net

    task = {"error": tp.squared_error([0.7, -0.4]), "lr": 0.3, "steps": 2, "particles": 512, "replicates": 2}

    def run(net):
        limit = tp.derive(net, tp.MaximalUpdate(tp.Adam(eps=0.2)))
        return limit.evaluate([[0.5, -0.8], [0.3, 0.9]], **task).f

    found = run(family.bind(a=2, b=2))
    np.testing.assert_allclose(found, run(alone(0, 1, 0)), atol=1e-12)
    assert np.abs(found[-1] - run(alone(0, 1, 1))[-1]).max() > 1e-3
