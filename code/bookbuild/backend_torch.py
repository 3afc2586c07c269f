"""Let cells read PyTorch's tensors as they read those of TensorFlow and JAX.

Runs in a kernel, before its chapter. PyTorch refuses three things that the others allow: to copy
into NumPy a tensor that carries a gradient, to compute with a tensor and a NumPy array together,
and to reduce a tensor by a function of NumPy's. Here the copy leaves the gradient behind, the array
becomes a tensor, and the tensor an array. No arithmetic of PyTorch's own is changed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS = (
    "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var",
)  # fmt: skip


def start() -> None:
    """Replace methods of PyTorch's tensors. Once a process."""
    torch.Tensor.__array__ = _array
    for name in (*OPERATORS, *(f"r{name}" for name in OPERATORS), *COMPARISONS):
        method = f"__{name}__"
        setattr(torch.Tensor, method, _with_arrays(getattr(torch.Tensor, method)))
    for name in REDUCTIONS:
        setattr(torch.Tensor, name, _by_numpy(name, getattr(torch.Tensor, name)))
    del torch.Tensor.__array_wrap__  # what a function of NumPy's gives is an array


def _array(tensor: torch.Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    return np.array(tensor.detach().cpu().numpy(), dtype=dtype, copy=copy)


def _with_arrays(own: Callable) -> Callable:
    def operator(tensor: torch.Tensor, other: Any) -> Any:
        if isinstance(other, np.ndarray | np.generic):
            both_real = tensor.is_floating_point() and other.dtype.kind == "f"
            other = torch.as_tensor(other, dtype=tensor.dtype if both_real else None)
        return own(tensor, other)

    return operator


def _by_numpy(name: str, own: Callable) -> Callable:
    def reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs and kwargs["out"] is None:  # NumPy calls methods of what it is given so
            return getattr(np.asarray(tensor), name)(*args, **kwargs)
        return own(tensor, *args, **kwargs)

    return reduce


start()
