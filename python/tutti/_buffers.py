"""What callers hand over (numpy arrays, what has the buffer protocol or DLPack) as address, type and shape."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Protocol, Union

import numpy as np

from . import _dlpack
from ._types import Elements, elements_of


class SupportsDLPack(Protocol):
    """Tensors of torch on the CPU, of JAX, and others."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


# bytearray, memoryview, array.array, mmap: what memoryview() takes.
BufferLike = Union[np.ndarray, SupportsDLPack, bytes, bytearray, memoryview, Any]


class Buffer(NamedTuple):
    """Memory of the caller, which `owner` keeps alive."""

    address: int
    size: int  # elements
    elements: Elements
    shape: tuple[int, ...]
    is_writable: bool
    owner: Any

    @property
    def length(self) -> int:
        """In elements of the library's type."""
        return self.size * self.elements.per_element


def _of_array(array: np.ndarray) -> Buffer:
    flags = array.flags
    if not flags.c_contiguous:
        raise ValueError(f"tutti: the array of shape {array.shape} with strides {array.strides} is not contiguous; "
                         "hand over numpy.ascontiguousarray() of it, and copy results back")
    return Buffer(array.ctypes.data, array.size, elements_of(array.dtype), array.shape, flags.writeable, array)


def readable(given: BufferLike) -> Buffer:
    """For what is only read. Raises TypeError for what is no array, ValueError where it is not contiguous."""
    if isinstance(given, np.ndarray):
        return _of_array(given)
    if hasattr(given, "__dlpack__"):
        tensor = _dlpack.tensor_of(given)
        return Buffer(tensor.address, tensor.size, tensor.elements, tensor.shape, tensor.is_writable, tensor)
    try:
        view = memoryview(given)
    except TypeError:
        raise TypeError(f"tutti: {type(given).__name__} is no array; calls take numpy arrays, tensors with DLPack, "
                        "and what has the buffer protocol (bytearray, array.array, memoryview)") from None
    return _of_array(np.asarray(view))


def writable(given: BufferLike) -> Buffer:
    """The same for what is written to. Raises ValueError where that is not allowed."""
    buffer = readable(given)
    if not buffer.is_writable:
        raise ValueError(f"tutti: results cannot go into this {type(given).__name__}: it is read-only")
    return buffer


def expect(buffer: Buffer, size: int, like: Optional[Buffer], what: str) -> None:
    """Raises ValueError unless `buffer` has `size` elements of the type of `like`."""
    if like is not None and buffer.elements != like.elements:
        raise TypeError(f"tutti: {what} has {buffer.elements.name}, but the array {like.elements.name}; "
                        "both must be of one type")
    if buffer.size != size:
        raise ValueError(f"tutti: {what} must have {size} elements, but has {buffer.size} (shape {buffer.shape})")
