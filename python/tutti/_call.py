"""One call of the library in full: what is handed to it, and what must live until it is complete."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_uint64, c_void_p
from typing import Any, Callable, Optional

from ._library import CallFields, MessageFields, library

(ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, BARRIER, ALL_GATHER_V,
 REDUCE_SCATTER_V, ALL_TO_ALL_V, GATHER_V, SCATTER_V, SEND, RECV) = range(16)  # tutti_collective_t


class Message:
    """What was received: `source` and `tag` of the message, and how many elements it had (`count`).

    Received in a group it is filled when the group ends.
    """

    def __init__(self, per_element: int) -> None:
        self._fields = MessageFields()
        self._per_element = per_element

    @property
    def source(self) -> int:
        """The sender's rank."""
        return int(self._fields.source)

    @property
    def tag(self) -> int:
        """The message's tag."""
        return int(self._fields.tag)

    @property
    def count(self) -> int:
        """Elements: may be fewer than there was room for."""
        return int(self._fields.count) // self._per_element

    def __repr__(self) -> str:
        return f"Message(source={self.source}, tag={self.tag}, count={self.count})"


class Call:
    """Its fields are those of tutti_call_t; `result` is what the caller gets, `kept` what the buffers lie in."""

    __slots__ = ("collective", "send", "recv", "count", "datatype", "op", "root", "peer", "tag", "message", "result",
                 "kept", "send_counts", "send_displacements", "recv_counts", "recv_displacements")

    def __init__(self, collective: int, send: Optional[int], recv: Optional[int], count: int, datatype: int,
                 kept: Any, result: Any = None, *, op: int = 0, root: int = 0, peer: int = 0, tag: int = 0,
                 message: Optional[Message] = None) -> None:
        self.collective = collective
        self.send = send
        self.recv = recv
        self.count = count
        self.datatype = datatype
        self.kept = kept
        self.result = result
        self.op = op
        self.root = root
        self.peer = peer
        self.tag = tag
        self.message = message
        self.send_counts: Any = None
        self.send_displacements: Any = None
        self.recv_counts: Any = None
        self.recv_displacements: Any = None

    def message_address(self) -> Optional[int]:
        """Where the library says what was received."""
        return None if self.message is None else ctypes.addressof(self.message._fields)

    def fields(self, timeout_ms: int) -> CallFields:
        """For the functions that take a call in full. 0: the communicator's deadline."""
        fields = CallFields(ctypes.sizeof(CallFields), self.collective, self.datatype, self.op, self.root, self.send,
                            self.recv, self.count, None, timeout_ms, 0)
        for name in ("send_counts", "send_displacements", "recv_counts", "recv_displacements"):
            array = getattr(self, name)
            setattr(fields, name, None if array is None else ctypes.addressof(array))
        fields.peer, fields.tag, fields.message = self.peer, self.tag, self.message_address()
        return fields


def counts_of(values: Sequence[int], nranks: int, per_element: int, what: str) -> Any:
    """A C array of the counts or displacements of all ranks, in elements of the library's type."""
    if len(values) != nranks:
        raise ValueError(f"tutti: {what} must have an entry for each of the {nranks} ranks, but has {len(values)}")
    if min(values) < 0:
        raise ValueError(f"tutti: {what} must not be negative: {list(values)}")
    return (c_uint64 * nranks)(*(int(value) * per_element for value in values))


# How the function of each name takes a call: it blocks without a request, which costs least.
_BLOCKING: dict[int, Callable[[Call, c_void_p], int]] = {
    ALL_REDUCE: lambda c, comm: library.tutti_all_reduce(c.send, c.recv, c.count, c.datatype, c.op, comm, None),
    REDUCE: lambda c, comm: library.tutti_reduce(c.send, c.recv, c.count, c.datatype, c.op, c.root, comm, None),
    BROADCAST: lambda c, comm: library.tutti_broadcast(c.send, c.recv, c.count, c.datatype, c.root, comm, None),
    ALL_GATHER: lambda c, comm: library.tutti_all_gather(c.send, c.recv, c.count, c.datatype, comm, None),
    REDUCE_SCATTER: lambda c, comm: library.tutti_reduce_scatter(c.send, c.recv, c.count, c.datatype, c.op, comm,
                                                                 None),
    ALL_TO_ALL: lambda c, comm: library.tutti_all_to_all(c.send, c.recv, c.count, c.datatype, comm, None),
    GATHER: lambda c, comm: library.tutti_gather(c.send, c.recv, c.count, c.datatype, c.root, comm, None),
    SCATTER: lambda c, comm: library.tutti_scatter(c.send, c.recv, c.count, c.datatype, c.root, comm, None),
    BARRIER: lambda c, comm: library.tutti_barrier(comm, None),
    ALL_GATHER_V: lambda c, comm: library.tutti_all_gather_v(c.send, c.count, c.recv, c.recv_counts,
                                                             c.recv_displacements, c.datatype, comm, None),
    REDUCE_SCATTER_V: lambda c, comm: library.tutti_reduce_scatter_v(c.send, c.recv, c.recv_counts, c.datatype, c.op,
                                                                     comm, None),
    ALL_TO_ALL_V: lambda c, comm: library.tutti_all_to_all_v(c.send, c.send_counts, c.send_displacements, c.recv,
                                                             c.recv_counts, c.recv_displacements, c.datatype, comm,
                                                             None),
    GATHER_V: lambda c, comm: library.tutti_gather_v(c.send, c.count, c.recv, c.recv_counts, c.recv_displacements,
                                                     c.datatype, c.root, comm, None),
    SCATTER_V: lambda c, comm: library.tutti_scatter_v(c.send, c.send_counts, c.send_displacements, c.recv, c.count,
                                                       c.datatype, c.root, comm, None),
    SEND: lambda c, comm: library.tutti_send(c.send, c.count, c.datatype, c.peer, c.tag, comm, None),
    RECV: lambda c, comm: library.tutti_recv(c.recv, c.count, c.datatype, c.peer, c.tag, comm, None,
                                             c.message_address()),
}


def run_blocking(call: Call, comm: c_void_p) -> int:
    """Makes the call, and returns its status. Without Python's lock."""
    return _BLOCKING[call.collective](call, comm)
