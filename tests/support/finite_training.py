"""Networks of finite width in training, written out by hand: true matrices, gradients by the chain rule.

Neural tangent parametrization: f = n^(−1/2) v·x, W = w/√n; gradients are multiplied and updates divided by n for
matrices, by √n for vectors.
"""

import numpy as np


class Descent:
    """Q_t = g_t."""

    def update(self, g):
        return g


class Adam:
    """m̂/√(v̂ + ε²)."""

    def __init__(self, eps, β1=0.9, β2=0.999, corrected=True):
        self.eps, self.β1, self.β2, self.corrected = eps, β1, β2, corrected
        self.m = self.v = 0.0
        self.t = 0

    def update(self, g):
        self.t += 1
        self.m = self.β1 * self.m + (1 - self.β1) * g
        self.v = self.β2 * self.v + (1 - self.β2) * g**2
        a, b = (1 - self.β1**self.t, 1 - self.β2**self.t) if self.corrected else (1.0, 1.0)
        return self.m / a / np.sqrt(self.v / b + self.eps**2)


class Perceptron:
    """f = n^(−1/2) v·tanh(W tanh(U ξ)), with `repeats` products by the same W; parameters "U", "W", "v"."""

    def __init__(self, n, d, seed, repeats=1):
        rng = np.random.default_rng(seed)
        self.n, self.repeats = n, repeats
        self.θ = {"U": rng.normal(size=(n, d)), "w": rng.normal(size=(n, n)), "v": rng.normal(size=n)}
        self.scale = {"U": n**0.5, "w": float(n), "v": n**0.5}

    def forward(self, X, θ=None):
        θ = θ or self.θ
        xs = [np.tanh(X @ θ["U"].T)]
        for _ in range(self.repeats):
            xs.append(np.tanh(xs[-1] @ θ["w"].T / self.n**0.5))
        return xs[-1] @ θ["v"] / self.n**0.5, xs

    def gradients(self, X, χ):
        """Σ_a χ_a ∂f_a/∂θ."""
        _, xs = self.forward(X)
        found = {"v": χ @ xs[-1] / self.n**0.5, "w": 0.0}
        dx = np.outer(χ, self.θ["v"]) / self.n**0.5
        for x, below in zip(xs[:0:-1], xs[-2::-1], strict=True):
            dh = dx * (1 - x**2)
            found["w"] = found["w"] + dh.T @ below / self.n**0.5
            dx = dh @ self.θ["w"] / self.n**0.5
        return {**found, "U": (dx * (1 - xs[0] ** 2)).T @ X}

    def train(self, X, signal, lr, steps, optimizer, decay=0.0):
        """f at all times; signal(f, f^dec) gives χ, f^dec the outputs at (1 − λ)^t θ_0; λ is for all, or by name."""
        λ = decay if isinstance(decay, dict) else dict.fromkeys(self.θ, decay)
        start = {k: v.copy() for k, v in self.θ.items()}
        optimizers = {name: optimizer() for name in self.θ}
        outputs, without = [], []
        for t in range(steps + 1):
            shrunk = {k: (1 - λ[k]) ** t * v for k, v in start.items()}
            f = self.forward(X)[0]
            outputs.append(f)
            without.append(self.forward(X, shrunk)[0])
            gradients = self.gradients(X, signal(f, without[-1]))
            for name, g in gradients.items():
                s = self.scale[name]
                self.θ[name] = (1 - λ[name]) * self.θ[name] - lr * optimizers[name].update(g * s) / s
        return np.array(outputs), np.array(without)
