"""The calls of a communicator, written once for those that block, those that start and those that are prepared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Optional, TypeVar

import numpy as np

from . import _call
from ._buffers import Buffer, BufferLike, expect, readable, writable
from ._call import Call, Message, counts_of
from ._types import Op, dtype_of

ANY_SOURCE = -1
ANY_TAG = -1

Everywhere = TypeVar("Everywhere")
AtRoot = TypeVar("AtRoot")
Received = TypeVar("Received")
Nothing = TypeVar("Nothing")
Counts = Sequence[int]


class Calls(Generic[Everywhere, AtRoot, Received, Nothing]):
    """Arrays are contiguous. Where an `out` is optional and was not given, a new array is made.

    Every rank makes the same collectives in the same order, with as many elements of one type and the same operation
    and root. An `out` is given back as it was handed over.
    """

    rank: int
    size: int

    def _make(self, call: Call) -> Any:
        raise NotImplementedError

    # ---- Reductions

    def all_reduce(self, array: BufferLike, out: Optional[BufferLike] = None, op: Op = Op.SUM) -> Everywhere:
        """Combines the arrays of all ranks; all get the result, in `out` or else in `array` itself."""
        if out is None:
            out = array
            send = recv = writable(array)
        else:
            send, recv = readable(array), writable(out)
            expect(recv, send.size, send, "out")
        elements = send.elements
        return self._make(Call(_call.ALL_REDUCE, send.address, recv.address, send.length, elements.datatype,
                               (send, recv), out, op=elements.op(op)))

    def reduce(self, array: BufferLike, out: Optional[BufferLike] = None, op: Op = Op.SUM, root: int = 0) -> AtRoot:
        """The same for the root alone, where `out` is a new array if it was not given. Other ranks get None."""
        send = readable(array)
        recv, result = self._at_root(root, out, send, send.size, send.shape)
        return self._make(Call(_call.REDUCE, send.address, recv and recv.address, send.length, send.elements.datatype,
                               (send, recv), result, op=send.elements.op(op), root=root))

    def reduce_scatter(self, array: BufferLike, out: Optional[BufferLike] = None, op: Op = Op.SUM) -> Everywhere:
        """Combines arrays of `size` equal blocks, and leaves block r on rank r. A new `out` has the first axis cut."""
        send = readable(array)
        self._expect_blocks(send)
        recv, result = self._output(out, send, send.size // self.size, self._block_shape(send))
        return self._make(Call(_call.REDUCE_SCATTER, send.address, recv.address, recv.length, send.elements.datatype,
                               (send, recv), result, op=send.elements.op(op)))

    def reduce_scatter_v(self, array: BufferLike, counts: Counts, out: Optional[BufferLike] = None,
                         op: Op = Op.SUM) -> Everywhere:
        """The same with blocks of `counts[r]` elements, which are the same on all ranks."""
        send = readable(array)
        per_block = counts_of(counts, self.size, send.elements.per_element, "counts")
        expect(send, sum(counts), None, "the array")
        recv, result = self._output(out, send, counts[self.rank], (counts[self.rank],))
        call = Call(_call.REDUCE_SCATTER_V, send.address, recv.address, recv.length, send.elements.datatype,
                    (send, recv), result, op=send.elements.op(op))
        call.recv_counts = per_block
        return self._make(call)

    # ---- Who has what

    def broadcast(self, array: BufferLike, root: int = 0) -> Everywhere:
        """All ranks get what the root has in `array`."""
        buffer = (readable if self.rank == root else writable)(array)
        return self._make(Call(_call.BROADCAST, buffer.address, buffer.address, buffer.length,
                               buffer.elements.datatype, buffer, array, root=root))

    def all_gather(self, array: BufferLike, out: Optional[BufferLike] = None) -> Everywhere:
        """All ranks get the arrays of all, in rank order. A new `out` has one more axis, the first: the rank."""
        send = readable(array)
        recv, result = self._output(out, send, self.size * send.size, (self.size, *send.shape))
        return self._make(Call(_call.ALL_GATHER, send.address, recv.address, send.length, send.elements.datatype,
                               (send, recv), result))

    def all_gather_v(self, array: BufferLike, counts: Counts, out: Optional[BufferLike] = None,
                     displacements: Optional[Counts] = None) -> Everywhere:
        """The same with arrays of `counts[r]` elements, which lie behind each other in `out` or at displacements."""
        send = readable(array)
        expect(send, counts[self.rank] if self.rank < len(counts) else 0, None, "the array")
        room = _room(counts, displacements)
        recv, result = self._output(out, send, room, (room,), exact=False)
        call = Call(_call.ALL_GATHER_V, send.address, recv.address, send.length, send.elements.datatype,
                    (send, recv), result)
        self._set_recv_counts(call, counts, displacements, send)
        return self._make(call)

    def gather(self, array: BufferLike, out: Optional[BufferLike] = None, root: int = 0) -> AtRoot:
        """The root gets the arrays of all ranks, as all_gather() gives them. Other ranks get None."""
        send = readable(array)
        recv, result = self._at_root(root, out, send, self.size * send.size, (self.size, *send.shape))
        return self._make(Call(_call.GATHER, send.address, recv and recv.address, send.length, send.elements.datatype,
                               (send, recv), result, root=root))

    def gather_v(self, array: BufferLike, counts: Optional[Counts] = None, out: Optional[BufferLike] = None,
                 root: int = 0, displacements: Optional[Counts] = None) -> AtRoot:
        """The same with arrays of different sizes: the root says in `counts` which; on other ranks it is not used."""
        send = readable(array)
        call = Call(_call.GATHER_V, send.address, None, send.length, send.elements.datatype, send, root=root)
        if self.rank == root:
            counts = _given(counts, "counts")
            room = _room(counts, displacements)
            recv, call.result = self._output(out, send, room, (room,), exact=False)
            call.recv, call.kept = recv.address, (send, recv)
            self._set_recv_counts(call, counts, displacements, send)
        return self._make(call)

    def scatter(self, array: Optional[BufferLike], out: BufferLike, root: int = 0) -> Everywhere:
        """Block r of the root's `array`, which has `size` of them, goes to rank r. Other ranks' arrays may be None."""
        recv = writable(out)
        send = None
        if self.rank == root:
            send = readable(_given(array, "array"))
            expect(send, self.size * recv.size, recv, "the array")
        return self._make(Call(_call.SCATTER, send and send.address, recv.address, recv.length, recv.elements.datatype,
                               (send, recv), out, root=root))

    def scatter_v(self, array: Optional[BufferLike], counts: Optional[Counts], out: BufferLike, root: int = 0,
                  displacements: Optional[Counts] = None) -> Everywhere:
        """The same with blocks of `counts[r]` elements. `array` and `counts` are used on the root alone."""
        recv = writable(out)
        call = Call(_call.SCATTER_V, None, recv.address, recv.length, recv.elements.datatype, recv, out, root=root)
        if self.rank == root:
            send, counts = readable(_given(array, "array")), _given(counts, "counts")
            _expect_room(send, counts, displacements, recv, "the array")
            call.send, call.kept = send.address, (send, recv)
            self._set_send_counts(call, counts, displacements, send)
        return self._make(call)

    # ---- All with all

    def all_to_all(self, array: BufferLike, out: Optional[BufferLike] = None) -> Everywhere:
        """Block j of `array`, which has `size` of them, goes to rank j, as block `rank` of its `out`."""
        send = readable(array)
        self._expect_blocks(send)
        recv, result = self._output(out, send, send.size, send.shape)
        return self._make(Call(_call.ALL_TO_ALL, send.address, recv.address, send.length // self.size,
                               send.elements.datatype, (send, recv), result))

    def all_to_all_v(self, array: BufferLike, send_counts: Counts, recv_counts: Counts,
                     out: Optional[BufferLike] = None, send_displacements: Optional[Counts] = None,
                     recv_displacements: Optional[Counts] = None) -> Everywhere:
        """The same with blocks of different sizes: send_counts[j] here are recv_counts[rank] of rank j."""
        send = readable(array)
        _expect_room(send, send_counts, send_displacements, send, "the array")
        room = _room(recv_counts, recv_displacements)
        recv, result = self._output(out, send, room, (room,), exact=False)
        call = Call(_call.ALL_TO_ALL_V, send.address, recv.address, 0, send.elements.datatype, (send, recv), result)
        self._set_send_counts(call, send_counts, send_displacements, send)
        self._set_recv_counts(call, recv_counts, recv_displacements, send)
        return self._make(call)

    def barrier(self) -> Nothing:
        """Complete when all ranks have called it."""
        return self._make(Call(_call.BARRIER, None, None, 0, 0, None))

    # ---- Messages

    def send(self, array: BufferLike, peer: int, tag: int = 0) -> Nothing:
        """Sends to rank `peer`. Complete when the array may be changed."""
        buffer = readable(array)
        return self._make(Call(_call.SEND, buffer.address, None, buffer.length, buffer.elements.datatype, buffer,
                               peer=peer, tag=tag))

    def recv(self, out: BufferLike, peer: int = ANY_SOURCE, tag: int = ANY_TAG) -> Received:
        """Receives from rank `peer`, a message that is no longer than `out`."""
        buffer = writable(out)
        message = Message(buffer.elements.per_element)
        return self._make(Call(_call.RECV, None, buffer.address, buffer.length, buffer.elements.datatype, buffer,
                               message, peer=peer, tag=tag, message=message))

    # ---- What these have in common

    def _expect_blocks(self, buffer: Buffer) -> None:
        if buffer.size % self.size:
            raise ValueError(f"tutti: an array of {buffer.size} elements (shape {buffer.shape}) cannot be cut into "
                             f"{self.size} equal blocks")

    def _block_shape(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer.shape and buffer.shape[0] % self.size == 0:
            return (buffer.shape[0] // self.size, *buffer.shape[1:])
        return (buffer.size // self.size,)

    def _output(self, out: Optional[BufferLike], like: Buffer, size: int, shape: tuple[int, ...],
                exact: bool = True) -> tuple[Buffer, Any]:
        """What was given, if it is right, or a new array; and what the caller gets."""
        if out is None:
            out = np.empty(shape, dtype_of(like.elements) if like.elements.ops else _dtype_of_owner(like))
            return readable(out), out
        buffer = writable(out)
        expect(buffer, size if exact else max(size, buffer.size), like, "out")
        return buffer, out

    def _at_root(self, root: int, out: Optional[BufferLike], like: Buffer, size: int,
                 shape: tuple[int, ...]) -> tuple[Optional[Buffer], Any]:
        return self._output(out, like, size, shape) if self.rank == root else (None, None)

    def _set_send_counts(self, call: Call, counts: Counts, displacements: Optional[Counts], like: Buffer) -> None:
        call.send_counts = counts_of(counts, self.size, like.elements.per_element, "the counts")
        if displacements is not None:
            call.send_displacements = counts_of(displacements, self.size, like.elements.per_element,
                                                "the displacements")

    def _set_recv_counts(self, call: Call, counts: Counts, displacements: Optional[Counts], like: Buffer) -> None:
        call.recv_counts = counts_of(counts, self.size, like.elements.per_element, "the counts")
        if displacements is not None:
            call.recv_displacements = counts_of(displacements, self.size, like.elements.per_element,
                                                "the displacements")


def _dtype_of_owner(buffer: Buffer) -> np.dtype[Any]:
    """Of elements that can only be moved: of a numpy array, which knows what they are."""
    if not isinstance(buffer.owner, np.ndarray):
        raise TypeError(f"tutti: give the output, out=..., for {buffer.elements.name}")
    return buffer.owner.dtype


def _given(value: Any, what: str) -> Any:
    if value is None:
        raise TypeError(f"tutti: the root has to give {what}")
    return value


def _room(counts: Counts, displacements: Optional[Counts]) -> int:
    """Elements up to the end of the last block."""
    if displacements is None:
        return sum(counts)
    return max((begin + count for begin, count in zip(displacements, counts) if count), default=0)


def _expect_room(buffer: Buffer, counts: Counts, displacements: Optional[Counts], like: Buffer, what: str) -> None:
    expect(buffer, max(_room(counts, displacements), buffer.size), like, what)
