"""The entrywise functions of the language, as SymPy heads.

SymPy's own heads are used where they exist (`tanh`, `erf`, `exp`, ...).  The heads defined here are
those whose value at a kink the language fixes (`step(0) = 0`, hence `relu'(0) = 0`) or whose
numerically stable form SymPy would rewrite away (`sigmoid`, `softplus`).  Each of them carries
`definition()`, the same function in elementary heads, which is what the limit rules work on; the
sampler and the kernels use the head itself.

>>> h = sympy.Symbol("h", real=True)
>>> relu(h).diff(h), relu(h).definition()
(step(h), h*step(h))
>>> step(3 * h), step(sympy.Integer(-2))
(step(h), 0)
"""

from __future__ import annotations

import sympy
from sympy import DiracDelta, Expr, Function, Rational, S


def _sign_of(x: Expr) -> int | None:
    """The sign of a number, or None when x is not a number whose sign SymPy can tell."""
    if not x.is_number:  # asked first: SymPy's assumptions about a long sum can take minutes
        return None
    if x.is_zero:
        return 0
    return 1 if x.is_positive else -1 if x.is_negative else None


def _switched(x: Expr, above: Expr, below: Expr) -> Expr | None:
    """`above` where the sign of x is known to be positive, `below` where it is known not to be, else None."""
    sign = _sign_of(x)
    return None if sign is None else above if sign > 0 else below


class Real(Function):
    """A real function of real arguments that knows its elementary form."""

    is_real = True

    def __new__(cls, *args: Expr, **options: bool) -> Expr:
        # as SymPy's own heads do: relu(nan) would pass for a number of unknown sign
        return S.NaN if args[0] is S.NaN else super().__new__(cls, *args, **options)

    def definition(self) -> Expr:
        """The same function in elementary heads; itself, where it has no such form."""
        return self

    def _eval_evalf(self, prec: int) -> Expr | None:
        """A number where the arguments are numbers: SymPy knows digits of elementary heads alone."""
        if not all(a.is_number for a in self.args):
            return None
        written = self.definition()
        return None if written == self else written._eval_evalf(prec)


class step(Real):
    """1 for x > 0, 0 otherwise (so step(0) = 0)."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        sign = _sign_of(x)
        if sign is not None:
            return S.One if sign > 0 else S.Zero
        factor, rest = x.as_coeff_Mul()  # step(3 h) and step(h) are the same function
        return cls(sympy.sign(factor) * rest) if factor.is_nonzero and abs(factor) != 1 else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return DiracDelta(self.args[0])


class relu(Real):
    """x for x > 0, 0 otherwise."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        return x if isinstance(x, (sympy.Abs, sympy.exp)) else _switched(x, x, S.Zero)

    def fdiff(self, argindex: int = 1) -> Expr:
        return step(self.args[0])

    def definition(self) -> Expr:
        return self.args[0] * step(self.args[0])


class leaky_relu(Real):
    """x for x > 0, slope * x otherwise."""

    nargs = 2

    @classmethod
    def eval(cls, x: Expr, slope: Expr) -> Expr | None:
        return _switched(x, x, slope * x)

    def fdiff(self, argindex: int = 1) -> Expr:
        x, slope = self.args
        if argindex == 1:
            return slope + (1 - slope) * step(x)
        return x * (1 - step(x))

    def definition(self) -> Expr:
        x, slope = self.args
        return slope * x + (1 - slope) * x * step(x)


class _Extreme(Real):
    """One of two arguments: the first where `ahead` times their difference is positive, else the second."""

    nargs = 2
    ahead: int

    @classmethod
    def eval(cls, x: Expr, y: Expr) -> Expr | None:
        if x == y:
            return x
        if S.NaN in (x, y):  # which SymPy does not put in any order
            return S.NaN
        if x == -y:
            return cls.ahead * sympy.Abs(x)
        found = _switched(cls._lead(x, y), x, y)
        # one order of arguments, so that equal functions are equal expressions
        if found is None and sympy.default_sort_key(x) > sympy.default_sort_key(y):
            return cls(y, x)
        return found

    @classmethod
    def _lead(cls, x: Expr, y: Expr) -> Expr:
        return x - y if cls.ahead > 0 else y - x

    def fdiff(self, argindex: int = 1) -> Expr:
        first = step(self._lead(*self.args))
        return first if argindex == 1 else 1 - first

    def definition(self) -> Expr:
        lead = self._lead(*self.args)
        return self.args[1] + self.ahead * lead * step(lead)


class maximum(_Extreme):
    """The larger of two arguments."""

    ahead = 1


class minimum(_Extreme):
    """The smaller of two arguments."""

    ahead = -1


class where(Real):
    """where(c, x, y) is x where c > 0 and y elsewhere."""

    nargs = 3

    @classmethod
    def eval(cls, c: Expr, x: Expr, y: Expr) -> Expr | None:
        if x == y:
            return x
        below, rest = c.as_coeff_Add()
        height, inner = rest.as_coeff_Mul()
        jump = inner.args[0] if isinstance(inner, stop_gradient) else inner
        if not isinstance(jump, step) or (below > 0) == (below + height > 0):
            return _switched(c, x, y)
        # step(u) − ½: by a comparison of u, which alone is close to a jump, as its value is not
        u = jump.args[0] if inner is jump else stop_gradient(jump.args[0])
        return cls(u, x, y) if below + height > 0 else cls(u, y, x)

    def fdiff(self, argindex: int = 1) -> Expr:
        c, x, y = self.args
        if argindex == 1:
            return (x - y) * DiracDelta(c)
        return step(c) if argindex == 2 else 1 - step(c)

    def definition(self) -> Expr:
        c, x, y = self.args
        return y + (x - y) * step(c)


class sigmoid(Real):
    """1 / (1 + exp(-x))."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        return Rational(1, 2) if _sign_of(x) == 0 else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return self * (1 - self)

    def definition(self) -> Expr:
        # the hyperbolic form is bounded at sight; 1/(1+exp(-x)) is not
        return (1 + sympy.tanh(self.args[0] / 2)) / 2


class softplus(Real):
    """log(1 + exp(x))."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        return sympy.log(2) if _sign_of(x) == 0 else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return sigmoid(self.args[0])

    def _eval_evalf(self, prec: int) -> Expr | None:
        x = self.args[0]
        if not x.is_number:
            return None
        return (sympy.Max(x, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(x))))._eval_evalf(prec)


class gelu(Real):
    """x Φ(x) with Φ the standard normal distribution function (the exact form)."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        return S.Zero if _sign_of(x) == 0 else None

    def fdiff(self, argindex: int = 1) -> Expr:
        x = self.args[0]
        density = sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
        return (1 + sympy.erf(x / sympy.sqrt(2))) / 2 + x * density

    def definition(self) -> Expr:
        x = self.args[0]
        return x * (1 + sympy.erf(x / sympy.sqrt(2))) / 2


class truncated(Real):
    """√2 erfinv(erf(c/√2) erf(x/√2)): of a standard normal x, a standard normal variable within ±c."""

    nargs = 2

    @classmethod
    def eval(cls, x: Expr, c: Expr) -> Expr | None:
        if x.is_zero:
            return S.Zero
        return -cls(-x, c) if x.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> Expr:
        if argindex != 1:
            raise sympy.ArgumentIndexError(self, argindex)
        x, c = self.args
        return sympy.erf(c / sympy.sqrt(2)) * sympy.exp((self**2 - x**2) / 2)

    def _eval_evalf(self, prec: int) -> Expr | None:
        x, c = (a / sympy.sqrt(2) for a in self.args)
        if not (x.is_number and c.is_number):
            return None
        return (sympy.sqrt(2) * sympy.erfinv(sympy.erf(c) * sympy.erf(x)))._eval_evalf(prec)


class stop_gradient(Real):
    """x, with the derivative 0."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        return x if x.is_number or isinstance(x, stop_gradient) else None

    def fdiff(self, argindex: int = 1) -> Expr:
        return S.Zero

    def definition(self) -> Expr:
        return self.args[0]


_SYMPY = (
    *(sympy.sign, sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.acos, sympy.atan),
    *(sympy.sinh, sympy.cosh, sympy.tanh, sympy.asinh, sympy.atanh, sympy.erf, sympy.erfc),
)
_OWN: dict[type, int] = {
    **dict.fromkeys((step, relu, sigmoid, softplus, gelu, stop_gradient), 1),
    **{leaky_relu: 2, maximum: 2, minimum: 2, where: 3},
}

#: every head a body may use: its name in files, the SymPy class, the number of arguments (None: any)
HEADS: dict[str, tuple[type, int | None]] = {
    "add": (sympy.Add, None),
    "mul": (sympy.Mul, None),
    "pow": (sympy.Pow, 2),
    "abs": (sympy.Abs, 1),
    "dirac": (DiracDelta, 1),
    **{head.__name__: (head, arity) for head, arity in _OWN.items()},
    **{head.__name__: (head, 1) for head in _SYMPY},
}

#: heads that jump where their first argument crosses zero
JUMPS = (step, sympy.sign, where)
#: heads with a kink where their argument crosses zero, or their arguments each other
KINKS = (sympy.Abs, relu, leaky_relu, maximum, minimum)
#: heads that are not smooth
BENT = (*JUMPS, *KINKS)


def elementary(expr: Expr) -> Expr:
    """The same function with every kinked head written through `step`, sigmoid through tanh."""
    if not expr.args or not expr.has(Real, sympy.Abs, sympy.sign):
        return expr
    args = [elementary(a) for a in expr.args]
    if isinstance(expr, sympy.Abs):
        return args[0] * (2 * step(args[0]) - 1)
    if isinstance(expr, sympy.sign):
        return step(args[0]) - step(-args[0])  # 0 at 0, which relu makes likely
    rebuilt = expr.func(*args)
    if isinstance(rebuilt, Real):
        rewritten = rebuilt.definition()
        return rewritten if rewritten == rebuilt else elementary(rewritten)
    return rebuilt


def kinks(expr: Expr) -> set[Expr]:
    """The arguments whose zero is a kink or a jump of the expression (as seen in elementary form)."""
    found = {node.args[0] for node in expr.atoms(step, relu, leaky_relu, where, sympy.sign, sympy.Abs)}
    for node in expr.atoms(maximum, minimum):
        found.add(node.args[0] - node.args[1])
    return found
