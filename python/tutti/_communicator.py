"""Communicators: how their ranks meet, make calls and part."""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_void_p
from typing import Any, Optional

import numpy as np

from . import _interrupt
from ._buffers import BufferLike, expect, readable, writable
from ._call import Call, Message, run_blocking
from ._calls import ANY_TAG, Calls
from ._interrupt import guarded
from ._library import Config, Error, Status, UniqueId, check, error_of, library
from ._requests import Prepared, Request, open_group


class Start(Calls[Request[np.ndarray], Request[Optional[np.ndarray]], Request[Message], Request[None]]):
    """The calls of a communicator, started: each gives a Request at once."""

    def __init__(self, comm: "Communicator", timeout_ms: int = 0) -> None:
        self._comm, self.rank, self.size = comm, comm.rank, comm.size
        self._timeout_ms = timeout_ms

    def __call__(self, timeout_ms: int) -> "Start":
        """With a deadline of their own: comm.start(timeout_ms=500).recv(array)."""
        return Start(self._comm, timeout_ms)

    def _make(self, call: Call) -> Any:
        comm, request = self._comm, c_void_p()
        comm._sweep()
        fields = call.fields(self._timeout_ms)
        comm._check(library.tutti_start(comm._handle, byref(fields), byref(request)))
        return Request(comm, request, call)


class Prepare(Calls[Prepared[np.ndarray], Prepared[Optional[np.ndarray]], Prepared[Message], Prepared[None]]):
    """The calls of a communicator, prepared: each gives a Prepared."""

    def __init__(self, comm: "Communicator") -> None:
        self._comm, self.rank, self.size = comm, comm.rank, comm.size

    def _make(self, call: Call) -> Any:
        handle = c_void_p()
        fields = call.fields(0)
        self._comm._check(library.tutti_prepare(self._comm._handle, byref(fields), byref(handle)))
        return Prepared(self._comm, handle, call)


# By address, in the order in which they were made: what was not closed is when the program ends.
_open: dict[int, "Communicator"] = {}


class Communicator(Calls[np.ndarray, Optional[np.ndarray], Message, None]):
    """The ranks that make calls together. Each rank is a process, or several are in one.

    Its methods block; those of `start` give a Request instead, those of `prepare` a Prepared. Several threads may make
    calls. It is closed by close(), at the end of a `with`, or when the program ends.
    """

    def __init__(self, nranks: int, unique_id: bytes, rank: int, **options: Any) -> None:
        """Joins as `rank` of `nranks` the communicator that `unique_id` names. Blocks until all have joined.

        `options` are those of docs/options.md in lower case: transport="tcp", timeout_ms=5000.
        """
        expected = ctypes.sizeof(UniqueId)
        if len(unique_id) != expected:
            raise ValueError(f"tutti: a unique id has {expected} bytes, not {len(unique_id)}; take tutti.unique_id()'s")
        handle, key = c_void_p(), UniqueId.from_buffer_copy(unique_id)
        with Config(options) as config:
            check(library.tutti_comm_init_rank_config(byref(handle), nranks, byref(key), rank, config))
        self._adopt(handle)

    @classmethod
    def _of(cls, handle: c_void_p) -> "Communicator":
        communicator = cls.__new__(cls)
        communicator._adopt(handle)
        return communicator

    def _adopt(self, handle: c_void_p) -> None:
        self._handle = handle
        self._process = os.getpid()
        self._requests: weakref.WeakSet[Request[Any]] = weakref.WeakSet()
        self._orphans: deque[tuple[c_void_p, Call]] = deque()  # nobody will wait for these
        self._sweep_at = 32
        self._prepared: list[Prepared[Any]] = []
        rank, size = c_int(), c_int()
        check(library.tutti_comm_rank(handle, byref(rank)), handle)
        check(library.tutti_comm_size(handle, byref(size)), handle)
        self.rank, self.size = rank.value, size.value
        self.start, self.prepare = Start(self), Prepare(self)
        _open[id(self)] = self
        _interrupt.install()

    def __repr__(self) -> str:
        return f"<tutti.Communicator, rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        if kind is not None and self._handle:
            self.abort()  # the others wait for what this rank does not do any more
            self._destroy()
        else:
            self.close()

    # ---- Calls

    def _make(self, call: Call) -> Any:
        if open_group.depth:
            open_group.calls.append((call, self))
        status = guarded(self._handle, run_blocking, call, self._handle)
        if status:
            raise self._error(status)
        return call.result

    def send_recv(self, array: BufferLike, dest: int, out: BufferLike, source: int, send_tag: int = 0,
                  recv_tag: int = ANY_TAG) -> Message:
        """Sends to one rank while it receives from another (or the same, or ANY_SOURCE), so that none waits in vain."""
        send, recv = readable(array), writable(out)
        expect(recv, recv.size, send, "out")
        message = Message(recv.elements.per_element)
        both = Call(-1, send.address, recv.address, send.length, send.elements.datatype, (send, recv), message=message)
        if open_group.depth:
            open_group.calls.append((both, self))
        self._check(self._guarded(
            library.tutti_send_recv, send.address, send.length, dest, send_tag, recv.address, recv.length, source,
            recv_tag, send.elements.datatype, self._handle, None, both.message_address()))
        return message

    # ---- Communicators

    def split(self, color: int, key: int = 0, **options: Any) -> Optional["Communicator"]:
        """One for each color, its ranks ordered by key, then by rank here; None for a negative color. Collective."""
        return self._derived(lambda made, config: library.tutti_comm_split(self._handle, color, key, made, config),
                             options)

    def dup(self, **options: Any) -> "Communicator":
        """One more of the same ranks. Collective."""
        made = self._derived(lambda made, config: library.tutti_comm_dup(self._handle, made, config), options)
        assert made is not None
        return made

    def _derived(self, make: Any, options: dict[str, Any]) -> Optional["Communicator"]:
        handle = c_void_p()
        if options:
            with Config(options) as config:
                self._check(self._guarded(make, byref(handle), config))
        else:  # as this one's
            self._check(self._guarded(make, byref(handle), None))
        return Communicator._of(handle) if handle else None

    @property
    def status(self) -> Status:
        """SUCCESS while it works, else its first error."""
        return Status(library.tutti_comm_status(self._handle)) if self._handle else Status.INVALID_USAGE

    def abort(self) -> None:
        """Makes all its calls fail, here and on the other ranks. From any thread; does not block."""
        self._check(library.tutti_comm_abort(self._handle))

    def close(self) -> None:
        """Waits until all its calls are complete and all ranks close it, and frees it. May be called again."""
        if self._handle:
            check(self._destroy())

    def _destroy(self) -> int:
        _open.pop(id(self), None)
        if os.getpid() != self._process:  # the parent's
            self._handle = c_void_p()
            return 0
        status = self._guarded(library.tutti_comm_finalize, self._handle)
        for prepared in list(self._prepared):
            prepared.close()
        handle, self._handle = self._handle, c_void_p()
        freed = _interrupt.destroy(handle)
        self._sweep(at_least=1)
        return status or freed

    def _is_busy(self) -> bool:
        """Whether calls are under way that nobody has waited for."""
        self._sweep(at_least=1)
        return bool(self._orphans) or any(request._call is not None for request in self._requests)

    # ---- Memory

    @contextmanager
    def register(self, *arrays: BufferLike) -> Iterator[None]:
        """Inside, other ranks of the host reach these arrays directly, which saves calls on them copies.

        Of this rank alone. Their memory moves to shared pages in place: tutti_comm_register() in tutti.h says what must
        not be done with it meanwhile (free it, resize it, touch it in a forked child).
        """
        registered = []
        try:
            for buffer in [writable(array) for array in arrays]:
                handle, size_bytes = c_void_p(), buffer.size * buffer.elements.size_bytes
                self._check(library.tutti_comm_register(self._handle, buffer.address, size_bytes, byref(handle)))
                registered.append((handle, buffer))
            yield
        finally:
            for handle, _ in reversed(registered):
                if self._handle:  # else closing it did
                    self._check(library.tutti_comm_deregister(self._handle, handle))

    # ---- What these have in common

    def _guarded(self, function: Any, *arguments: Any) -> int:
        return guarded(self._handle, function, *arguments)

    def _check(self, status: int) -> None:
        if status:
            raise self._error(status)

    def _error(self, status: int) -> Error:
        if not self._handle and status == Status.INVALID_ARGUMENT:
            return Error(status, "this communicator is closed; make calls before close()")
        return error_of(status, self._handle or None)

    def _sweep(self, at_least: int = 0) -> None:
        """Lets go of what the complete calls among the orphans have kept. Rarely, as there may be many."""
        if len(self._orphans) < (at_least or self._sweep_at):
            return
        for _ in range(len(self._orphans)):
            try:
                handle, call = self._orphans.popleft()
            except IndexError:  # another thread sweeps too
                break
            done = c_int()
            status = library.tutti_test(byref(handle), byref(done))
            if not done.value and not status:
                self._orphans.append((handle, call))
        self._sweep_at = max(32, 2 * len(self._orphans))


def _close_all() -> None:
    """At the program's end. Those with calls under way are aborted, as after an exception: nobody waits for these."""
    for communicator in reversed(list(_open.values())):
        if os.getpid() == communicator._process and communicator._is_busy():
            library.tutti_comm_abort(communicator._handle)
        communicator._destroy()


atexit.register(_close_all)


def init(**options: Any) -> Communicator:
    """Joins the ranks that `tutti run`, mpirun, mpiexec, srun or torchrun has started; alone it is one rank. Blocks.

    `options` are those of docs/options.md in lower case: init(transport="tcp", timeout_ms=5000).
    """
    handle = c_void_p()
    with Config(options) as config:
        check(library.tutti_comm_init_from_environment(byref(handle), config))
    return Communicator._of(handle)


def unique_id() -> bytes:
    """A fresh id, to be given to all ranks of one communicator; it holds their secret. This process must stay until
    they have joined."""
    key = UniqueId()
    check(library.tutti_get_unique_id(byref(key)))
    return bytes(key)
