"""Functions in vector registers: exp, erf and tanh in arithmetic alone.

e^x = 2^k e^r with a polynomial of degree 11 in r, |r| ≤ log(2)/2, interpolated at Chebyshev points: to 4e-16, relative.
erf x = x P(x²) for |x| < ½, else ±(1 − e^(−x²) Q(t)) with Q(t) = e^(x²) erfc|x| a polynomial of degree 17 in
t = (|x| − 5/2)/(|x| + 5/2): to 1e-15.  tanh x is a rational function of x² times x for |x| < 5/8 (Cody and Waite), else
±(1 − s)/(1 + s) with s = e^(−2|x|): to 1e-15.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

_FLAGS = ("contract", "nsz")
_EXP = (
    *(1.0, 1.0, 0.5000000000000019, 0.1666666666666668, 0.0416666666664881, 0.008333333333319601),
    *(0.0013888888952314775, 0.00019841269890047113, 2.4801485482328494e-05, 2.755724091857897e-06),
    *(2.763263963904103e-07, 2.5110037605963777e-08),
)
_ERF = (
    *(1.1283791670955126, -0.37612638903183476, 0.11283791670925353, -0.026866170632887928, 0.00522397737302147),
    *(-0.0008548297753674966, 0.00012053335124353741, -1.4845849259707869e-05, 1.4725865480556744e-06),
)
_ERFCX = (
    *(0.21080636406114373, -0.3717367339489835, 0.2517131932173904, -0.12503305237758394, 0.03992253908029324),
    *(-0.003993701207872167, -0.0026423661201063443, 0.0008759159975222559, 0.00022838287180802061),
    *(-0.00012887941584666432, -3.4202016986193744e-05, 1.8604118888185155e-05, 7.622348886977994e-06),
    *(-2.1879632111448788e-06, -1.8489431837818851e-06, -1.5945012102063905e-07, 1.6410988853646696e-07),
    *(4.285634290217751e-08,),
)
_TANH_P = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
_TANH_Q = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693145751953125, 1.42860682030941723212e-6


class Arithmetic:
    """Operations of one type, `double` or vectors of it, in the code that a builder writes."""

    def __init__(self, builder: ir.IRBuilder, module: ir.Module) -> None:
        self.builder, self.module = builder, module

    def constant(self, like: Any, value: float) -> Any:
        """A number as a value of the type of another."""
        if isinstance(like.type, ir.VectorType):
            return ir.Constant(like.type, [value] * like.type.count)
        return ir.Constant(like.type, value)

    def add(self, x: Any, y: Any) -> Any:
        return self.builder.fadd(x, y, flags=_FLAGS)

    def subtract(self, x: Any, y: Any) -> Any:
        return self.builder.fsub(x, y, flags=_FLAGS)

    def multiply(self, x: Any, y: Any) -> Any:
        return self.builder.fmul(x, y, flags=_FLAGS)

    def divide(self, x: Any, y: Any) -> Any:
        return self.builder.fdiv(x, y, flags=_FLAGS)

    def negative(self, x: Any) -> Any:
        return self.subtract(self.constant(x, -0.0), x)

    def polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Horner's rule, coefficients of low powers first."""
        value = self.constant(x, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            value = self.add(self.multiply(value, x), self.constant(x, c))
        return value

    def greater(self, x: Any, y: Any) -> Any:
        return self.builder.fcmp_ordered(">", x, y)

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return self.builder.select(condition, x, y)

    def intrinsic(self, name: str, x: Any, *more: Any) -> Any:
        """A function that LLVM knows, such as sqrt."""
        kind = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        bits = "f32" if kind == ir.FloatType() else "f64"
        suffix = f"v{x.type.count}{bits}" if isinstance(x.type, ir.VectorType) else bits
        full = f"llvm.{name}.{suffix}"
        taken = ir.FunctionType(x.type, [x.type] * (1 + len(more)))
        function = self.module.globals.get(full) or ir.Function(self.module, taken, full)
        return self.builder.call(function, [x, *more])

    def scalar(self, name: str, x: Any, *more: Any) -> Any:
        """A function of the C library, number by number."""
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * (1 + len(more)))
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        if not isinstance(x.type, ir.VectorType):
            return self.builder.call(function, [x, *more])
        found = ir.Constant(x.type, ir.Undefined)
        for lane in range(x.type.count):
            at = ir.Constant(ir.IntType(32), lane)
            one = self.builder.call(function, [self.builder.extract_element(v, at) for v in (x, *more)])
            found = self.builder.insert_element(found, one, at)
        return found

    def absolute(self, x: Any) -> Any:
        return self.intrinsic("fabs", x)

    def exp(self, x: Any) -> Any:
        """e^x; 0 below −708, infinite above 709.78, NaN of NaN."""
        top, bottom = self.constant(x, 709.78), self.constant(x, -708.0)
        inside = self.select(self.greater(x, top), top, self.select(self.greater(bottom, x), bottom, x))
        scaled = self.add(self.multiply(inside, self.constant(x, _LOG2E)), self.constant(x, 0.5))
        k = self.intrinsic("floor", scaled)
        # log 2 in two parts: k times the first, of few bits, is exact
        r = self.subtract(inside, self.multiply(k, self.constant(x, _LN2_HIGH)))
        r = self.subtract(r, self.multiply(k, self.constant(x, _LN2_LOW)))
        value = self.polynomial(r, _EXP)
        vector = isinstance(x.type, ir.VectorType)
        whole = ir.VectorType(ir.IntType(64), x.type.count) if vector else ir.IntType(64)
        bits = self.builder.bitcast(value, whole)
        shift = ir.Constant(whole, [52] * x.type.count if vector else 52)
        # 2^k by adding k to the exponent's bits, which begin at the 52nd
        power = self.builder.shl(self.builder.fptosi(k, whole), shift)
        value = self.builder.bitcast(self.builder.add(bits, power), x.type)
        value = self.select(self.greater(bottom, x), self.constant(x, 0.0), value)
        value = self.select(self.greater(x, top), self.constant(x, float("inf")), value)
        return self.select(self.builder.fcmp_unordered("uno", x, x), x, value)

    def erf(self, x: Any, exponential: Any = None) -> Any:
        """erf x; `exponential` is e^(−x²) where that is known."""
        size = self.absolute(x)
        if exponential is None:
            exponential = self.exp(self.negative(self.multiply(x, x)))
        middle = self.constant(x, 2.5)
        t = self.divide(self.subtract(size, middle), self.add(size, middle))
        tail = self.subtract(self.constant(x, 1.0), self.multiply(exponential, self.polynomial(t, _ERFCX)))
        near = self.multiply(x, self.polynomial(self.multiply(x, x), _ERF))
        # erfc(6.2) < 2e-18, and t is ∞/∞ at infinite x
        tail = self.select(self.greater(size, self.constant(x, 6.2)), self.constant(x, 1.0), tail)
        far = self.intrinsic("copysign", tail, x)
        value = self.select(self.greater(self.constant(x, 0.5), size), near, far)
        return self.select(self.builder.fcmp_unordered("uno", x, x), x, value)

    def tanh(self, x: Any) -> Any:
        """tanh x."""
        size, one = self.absolute(x), self.constant(x, 1.0)
        s = self.exp(self.multiply(size, self.constant(x, -2.0)))
        far = self.intrinsic("copysign", self.divide(self.subtract(one, s), self.add(one, s)), x)
        z = self.multiply(x, x)
        ratio = self.divide(self.polynomial(z, _TANH_P), self.polynomial(z, _TANH_Q))
        near = self.add(x, self.multiply(x, self.multiply(z, ratio)))
        return self.select(self.greater(self.constant(x, 0.625), size), near, far)

    def sigmoid(self, x: Any) -> Any:
        """1/(1 + e^(−x))."""
        one = self.constant(x, 1.0)
        return self.divide(one, self.add(one, self.exp(self.negative(x))))
