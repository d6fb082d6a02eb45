"""Calls that are not waited for at once: requests, prepared calls, groups."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

from ._call import Call
from ._interrupt import guarded
from ._library import Error, check, library

if TYPE_CHECKING:
    from ._communicator import Communicator

Result = TypeVar("Result")


class Request(Generic[Result]):
    """A call that was started. Its arrays belong to the library until it is complete, also if nobody waits for it."""

    def __init__(self, comm: "Communicator", handle: c_void_p, call: Call) -> None:
        self._comm = comm
        self._handle = handle
        self._call: Optional[Call] = call
        self._result = call.result
        self._error: Optional[Error] = None
        comm._requests.add(self)

    def __del__(self) -> None:
        if self._call is not None:
            self._comm._orphans.append((self._handle, self._call))

    def wait(self) -> Result:
        """Blocks until it is complete, and gives what the blocking call would. May be called again."""
        if self._call is not None:
            self._taken(self._comm._guarded(library.tutti_wait, byref(self._handle)))
        if self._error is not None:
            raise self._error
        return self._result

    def test(self) -> bool:
        """Whether it is complete. Does not block. Raises the call's error."""
        if self._call is not None:
            done = c_int()
            status = library.tutti_test(byref(self._handle), byref(done))
            if done.value or status:
                self._taken(status)
        if self._error is not None:
            raise self._error
        return self._call is None

    def _taken(self, status: int) -> None:
        if status:
            self._error = self._comm._error(status)
        self._call = None


def wait_all(requests: Sequence[Request[Any]]) -> list[Any]:
    """Waits for all, and gives their results. Raises the first error by position, when all are complete."""
    results, first = [], None
    for request in requests:
        try:
            results.append(request.wait())
        except Error as error:
            first = first or error
    if first is not None:
        raise first
    return results


def wait_any(requests: Sequence[Request[Any]]) -> Optional[int]:
    """Waits until one that was not waited for is complete; gives its position, None when there was none. Its wait()
    gives the result or raises the error."""
    handles = (c_void_p * len(requests))()
    comm = None
    for position, request in enumerate(requests):
        if request._call is not None:
            handles[position] = request._handle.value
            comm = request._comm
    if comm is None:
        return None
    index = c_size_t()
    status = comm._guarded(library.tutti_wait_any, len(requests), handles, byref(index))
    requests[index.value]._handle = c_void_p()
    requests[index.value]._taken(status)
    return index.value


class Prepared(Generic[Result]):
    """A call on certain arrays that was checked and planned, to be started many times."""

    def __init__(self, comm: "Communicator", handle: c_void_p, call: Call) -> None:
        self._comm = comm
        self._handle = handle
        self._call = call
        self._request: Optional[Request[Result]] = None
        comm._prepared.append(self)

    def start(self) -> Request[Result]:
        """Starts it, as soon as the request of the time before was waited for."""
        request = c_void_p()
        self._comm._check(library.tutti_start_prepared(self._handle, byref(request)))
        self._request = Request(self._comm, request, self._call)
        return self._request

    def close(self) -> None:
        """Waits for what was started, and frees it. Closing its communicator does too."""
        handle, self._handle = self._handle, c_void_p()
        if not handle:
            return
        self._comm._prepared.remove(self)
        if self._request is not None and self._request._call is not None:
            self._request._taken(self._comm._guarded(library.tutti_wait, byref(self._request._handle)))
        check(library.tutti_prepared_destroy(handle))


class _OpenGroup(threading.local):
    """Of this thread: its calls, whose arrays must live until it ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.calls: list[tuple[Call, "Communicator"]] = []


open_group = _OpenGroup()


@contextmanager
def group() -> Iterator[None]:
    """Calls inside start together at the end, which waits for all; small ones of one kind become one.

    Their results are there when the group has ended. An exception inside gives the group up: nothing is started.
    """
    check(library.tutti_group_begin())
    open_group.depth += 1
    try:
        yield
    except BaseException:
        if open_group.calls:  # a group with a call that was refused starts nothing
            library.tutti_all_reduce(None, None, 1, -1, 0, open_group.calls[0][1]._handle, None)
        _end_group()
        raise
    check(_end_group())


def _end_group() -> int:
    open_group.depth -= 1
    calls = open_group.calls
    if open_group.depth == 0:
        open_group.calls = []
    if not calls:
        status: int = library.tutti_group_end()
        return status
    return guarded(calls[0][1]._handle, library.tutti_group_end)
