"""Ctrl-C while the main thread waits in the library.

Python's handler runs when the main thread is back in Python. So a thread learns of the signal through the interpreter's
wake-up descriptor and aborts the communicator that is waited on: the call returns, and KeyboardInterrupt is raised.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from ctypes import c_void_p
from typing import Any, Callable, Optional

from ._library import library

_GRACE_S = 0.1  # in which a call that is about to return does
_main = threading.main_thread().ident
_get_ident = threading.get_ident
_waited_on: Optional[c_void_p] = None  # by the main thread
_installed_for = 0  # the process whose signals are listened to
_lock = threading.Lock()  # held while a communicator is aborted, or destroyed


def guarded(comm: c_void_p, function: Callable[..., int], *arguments: Any) -> int:
    """function(*arguments), which may wait for other ranks of `comm`."""
    global _waited_on
    if _get_ident() != _main:
        return function(*arguments)
    before = _waited_on
    try:
        _waited_on = comm
        return function(*arguments)
    finally:
        _waited_on = before


def destroy(comm: c_void_p) -> int:
    """Destroys a communicator that was finalized, which nobody aborts meanwhile."""
    global _waited_on
    with _lock:
        _waited_on = None
        status: int = library.tutti_comm_destroy(comm)
    return status


def install() -> None:
    """Once in a process, by its main thread. Leaves a descriptor of somebody else, such as asyncio's, where it is."""
    global _installed_for
    if _get_ident() != _main or _installed_for == os.getpid():
        return
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
        return
    _installed_for = os.getpid()
    threading.Thread(target=_listen, args=(reader,), name="tutti-interrupt", daemon=True).start()


def _forget() -> None:
    """A child has no such thread, and its signals are not its parent's."""
    global _main, _waited_on
    _main, _waited_on = threading.get_ident(), None
    if _installed_for:
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_forget)


def _listen(reader: int) -> None:
    while True:
        if signal.SIGINT not in os.read(reader, 64):
            continue
        waited_on = _waited_on
        time.sleep(_GRACE_S)
        with _lock:
            still = waited_on is not None and _waited_on is waited_on
            if still and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                library.tutti_comm_abort(waited_on)
