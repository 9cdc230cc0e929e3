"""Names of operations: PyTorch has several for one and the same."""

from __future__ import annotations

#: other names of operations, as `torch.arctan` and `torch.special.expit` leave them in a graph
SAME = {
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    **{"greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne"},
    **{f"special_{f}": f for f in ("erf", "erfc", "exp2", "expm1", "log1p", "logit", "sinc", "xlogy", "xlog1py")},
    **{"special_expit": "sigmoid", "special_softmax": "softmax", "special_log_softmax": "log_softmax"},
    **{"special_logsumexp": "logsumexp", "fix": "trunc", "linalg_matmul": "matmul", "row_stack": "vstack"},
}
