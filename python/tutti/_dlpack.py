"""Tensors of other libraries, through the C structures of DLPack (https://dmlc.github.io/dlpack).

numpy.from_dlpack() would do, but for what numpy does not have (bfloat16, 8-bit floats) or may not write to.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from ._types import OF_CODE, Elements, bytes_of

_CPU, _PINNED = 1, 3
_READ_ONLY = 1  # of the flags


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_DELETER = CFUNCTYPE(None, c_void_p)
_FORMS = {b"dltensor": (_Managed, b"used_dltensor"), b"dltensor_versioned": (_Versioned, b"used_dltensor_versioned")}
_api = ctypes.pythonapi
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _api))
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))


class Tensor:
    """Memory that DLPack lends until this object goes away."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed
        tensor: _Tensor = managed.tensor
        self.shape = tuple(tensor.shape[:tensor.ndim])
        self.size = 1
        for extent in self.shape:
            self.size *= extent
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.is_writable = not getattr(managed, "flags", 0) & _READ_ONLY
        self.elements = self._elements(tensor)
        self._expect_contiguous(tensor)

    def __del__(self) -> None:
        if self._managed.deleter:
            _DELETER(self._managed.deleter)(ctypes.addressof(self._managed))

    @staticmethod
    def _elements(tensor: _Tensor) -> Elements:
        bits = tensor.bits * tensor.lanes
        known = OF_CODE.get((tensor.code, bits))
        if known is not None and tensor.lanes == 1:
            return known
        if bits % 8:
            raise TypeError(f"tutti: elements of {bits} bits cannot be sent")
        return bytes_of(f"type {tensor.code} of DLPack with {bits} bits", bits // 8)

    def _expect_contiguous(self, tensor: _Tensor) -> None:
        if not tensor.strides or self.size == 0:
            return
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(tensor.strides[:tensor.ndim])):
            if extent != 1 and stride != expected:
                raise ValueError(f"tutti: the tensor of shape {self.shape} is not contiguous; hand over a contiguous "
                                 "copy, and copy results back")
            expected *= extent


def tensor_of(given: Any) -> Tensor:
    """Borrows the memory of an object with __dlpack__. Raises TypeError for memory of a device."""
    device = given.__dlpack_device__()[0]
    if device not in (_CPU, _PINNED):
        raise TypeError(f"tutti: the {type(given).__name__} is on a device (DLPack's type {int(device)}); this package "
                        "takes memory of the host")
    try:
        capsule = given.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before DLPack 1.0
        capsule = given.__dlpack__()
    name = _capsule_name(capsule)
    form, used = _FORMS[name]
    managed = form.from_address(_capsule_pointer(capsule, name))
    _capsule_rename(capsule, used)  # which is how DLPack says who calls the deleter
    return Tensor(managed)
