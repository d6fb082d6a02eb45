"""Which of the library's types an element is, when it is moved and when it is reduced."""

from __future__ import annotations

import enum
import importlib
from typing import Any, NamedTuple, Optional

import numpy as np


class Op(enum.IntEnum):
    """How contributions are combined (tutti_op_t)."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Elements(NamedTuple):
    """One kind of element. Moved, it is `per_element` elements of `datatype`; reduced too, where it can be."""

    name: str
    size_bytes: int
    datatype: int
    per_element: int
    ops: frozenset[Op]

    def op(self, op: Op) -> int:
        """What the library is asked for. Raises TypeError where these elements have no such operation."""
        if op not in self.ops:
            can = ", ".join(sorted(known.name for known in self.ops)) or "none"
            hint = "; convert it, with astype() for example" if not self.ops else ""
            raise TypeError(f"tutti: {self.name} has no {Op(op).name} (it has: {can}){hint}")
        return _OF_BOOLS.get(op, op) if self.name == "bool" else op


_UINT8 = 1
_EVERY, _BITWISE = frozenset(Op), frozenset((Op.BAND, Op.BOR, Op.BXOR))
_OF_FLOATS = _EVERY - _BITWISE
# A bool is a byte of 0 or 1: a sum is "any" and a product "all", as numpy's of bools.
_OF_BOOLS = {Op.SUM: Op.MAX, Op.PROD: Op.MIN}

# DLPack's code of a type and its bits -> what it is.
OF_CODE: dict[tuple[int, int], Elements] = {}
_OF_DTYPE: dict[np.dtype[Any], Elements] = {}


def _add(code: int, name: str, size: int, datatype: int, ops: frozenset[Op], per_element: int = 1) -> None:
    OF_CODE[code, 8 * size] = Elements(name, size, datatype, per_element, ops)


for _position, _size in enumerate((1, 4, 8)):
    _add(0, f"int{8 * _size}", _size, 2 * _position, _EVERY)
    _add(1, f"uint{8 * _size}", _size, 2 * _position + 1, _EVERY)
for _position, _size in enumerate((2, 4, 8)):
    _add(2, f"float{8 * _size}", _size, 6 + _position, _OF_FLOATS)
_add(4, "bfloat16", 2, 9, _OF_FLOATS)
_add(10, "float8_e4m3fn", 1, 10, _OF_FLOATS)
_add(12, "float8_e5m2", 1, 11, _OF_FLOATS)
_add(6, "bool", 1, _UINT8, _EVERY - {Op.AVG})
for _size in (4, 8):  # a complex number: two of these
    _real = OF_CODE[2, 8 * _size]
    OF_CODE[5, 16 * _size] = Elements(f"complex{16 * _size}", 2 * _size, _real.datatype, 2,
                                      frozenset((Op.SUM, Op.AVG)))
_CODE_OF_KIND = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BY_NAME = {elements.name: elements for elements in OF_CODE.values()}


def bytes_of(name: str, size_bytes: int) -> Elements:
    """Elements that can only be moved."""
    return Elements(name, size_bytes, _UINT8, size_bytes, frozenset())


def elements_of(dtype: np.dtype[Any]) -> Elements:
    """Raises TypeError for Python objects and foreign byte orders."""
    found = _OF_DTYPE.get(dtype)
    if found is None:
        found = _OF_DTYPE[dtype] = _look_up(dtype)
    return found


def _look_up(dtype: np.dtype[Any]) -> Elements:
    if dtype.hasobject:
        raise TypeError(f"tutti: arrays of Python objects ({dtype}) cannot be sent; pickle them into bytes")
    if not dtype.isnative:
        raise TypeError(f"tutti: {dtype} has another byte order than this machine; convert it with astype()")
    if dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):  # of ml_dtypes
        return _BY_NAME[dtype.name]
    code = _CODE_OF_KIND.get(dtype.kind)
    known: Optional[Elements] = None if code is None else OF_CODE.get((code, 8 * dtype.itemsize))
    return known or bytes_of(dtype.name, dtype.itemsize)


def dtype_of(elements: Elements) -> np.dtype[Any]:
    """For new arrays. Raises TypeError where numpy has no such type and ml_dtypes is not installed."""
    try:
        return np.dtype(elements.name)
    except TypeError:
        pass
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), elements.name))
    except (ImportError, AttributeError):
        raise TypeError(f"tutti: numpy has no {elements.name} (pip install ml_dtypes has); give the output, "
                        "out=...") from None
