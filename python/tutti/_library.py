"""libtutti.so: where it is, the C functions with their argument types, and what becomes of a status."""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

SONAME = "libtutti.so.0"
VERSION = (0, 1)  # whose tutti.h this package was written after


class Status(enum.IntEnum):
    """What a call of the C library returns (tutti_status_t)."""

    SUCCESS = 0
    CUDA_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7
    TIMEOUT = 8
    ABORTED = 9


class Error(RuntimeError):
    """A call that failed: `status` says of which kind, the text is tutti's sentence."""

    status: Status

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = Status(status)

    def __reduce__(self) -> Any:  # multiprocessing hands errors on
        return type(self), (int(self.status), str(self))


class UniqueId(ctypes.Structure):
    """tutti_unique_id_t."""

    _fields_ = [("bytes", c_uint8 * 128)]


class MessageFields(ctypes.Structure):
    """tutti_message_t."""

    _fields_ = [("source", c_int32), ("tag", c_int32), ("count", c_uint64)]


class CallFields(ctypes.Structure):
    """tutti_call_t."""

    _fields_ = [
        ("struct_size", c_size_t), ("collective", c_int), ("datatype", c_int), ("op", c_int), ("root", c_int32),
        ("send_buffer", c_void_p), ("recv_buffer", c_void_p), ("count", c_uint64), ("stream", c_void_p),
        ("timeout_ms", c_int64), ("flags", c_uint64), ("send_counts", c_void_p), ("send_displacements", c_void_p),
        ("recv_counts", c_void_p), ("recv_displacements", c_void_p), ("peer", c_int32), ("tag", c_int32),
        ("message", c_void_p), ("completed", c_void_p), ("context", c_void_p),
    ]


# The letters of SIGNATURES: p a pointer, n a count or size, i an int or an enumerator, t text, o where a result goes.
_LETTERS = {"p": c_void_p, "n": c_uint64, "i": c_int, "t": c_char_p, "o": c_void_p}
_SIGNATURES = {
    "config_create": "o", "config_set": "ptt", "get_unique_id": "o",
    "comm_init_rank_config": "oipip", "comm_init_from_environment": "op", "comm_split": "piiop", "comm_dup": "pop",
    "comm_rank": "po", "comm_size": "po", "comm_status": "p", "comm_finalize": "p", "comm_destroy": "p",
    "comm_abort": "p", "comm_register": "ppno", "comm_deregister": "pp", "mem_alloc": "on", "mem_free": "p",
    "all_reduce": "ppniipp", "reduce": "ppniiipp", "broadcast": "ppniipp", "all_gather": "ppnipp",
    "reduce_scatter": "ppniipp", "all_to_all": "ppnipp", "gather": "ppniipp", "scatter": "ppniipp", "barrier": "pp",
    "all_gather_v": "pnpppipp", "reduce_scatter_v": "pppiipp", "all_to_all_v": "ppppppipp", "gather_v": "pnpppiipp",
    "scatter_v": "ppppniipp", "send": "pniiipp", "recv": "pniiippp", "send_recv": "pniipniiippp",
    "group_begin": "", "group_end": "", "start": "ppo", "prepare": "ppo", "start_prepared": "po",
    "prepared_destroy": "p", "wait": "o", "test": "oo", "wait_any": "noo",
}


def open_library(name: str) -> ctypes.CDLL:
    """What a wheel carries lies beside this file; else it is what the system's loader finds."""
    beside = Path(__file__).with_name(name)
    try:
        return ctypes.CDLL(str(beside) if beside.exists() else name)
    except OSError as problem:
        raise ImportError(
            f"tutti: {name} cannot be loaded ({problem}); install the package with its libraries "
            "(pip install ./python), or say where that of an installed tutti is (LD_LIBRARY_PATH, ldconfig)"
        ) from problem


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    library.tutti_version.argtypes, library.tutti_version.restype = [], c_int
    found = divmod(library.tutti_version() // 100, 100)
    if found != VERSION:
        raise ImportError(f"tutti: this package is for libtutti {VERSION[0]}.{VERSION[1]}, but {SONAME} is "
                          f"{found[0]}.{found[1]}; install both from one version")
    for name, letters in _SIGNATURES.items():
        function = getattr(library, "tutti_" + name)
        function.argtypes, function.restype = [_LETTERS[letter] for letter in letters], c_int
    library.tutti_last_error.argtypes, library.tutti_last_error.restype = [c_void_p], c_char_p
    library.tutti_status_text.argtypes, library.tutti_status_text.restype = [c_int], c_char_p
    library.tutti_config_destroy.argtypes, library.tutti_config_destroy.restype = [c_void_p], None
    library.tutti_wait.argtypes = [POINTER(c_void_p)]
    library.tutti_test.argtypes = [POINTER(c_void_p), POINTER(c_int)]
    return library


library = _declared(open_library(SONAME))


def error_of(status: int, comm: Optional[c_void_p]) -> Error:
    """The error of a call on `comm`, or of one that had none, which has just returned `status` in this thread."""
    sentence = library.tutti_last_error(comm) or library.tutti_status_text(status)
    return Error(status, sentence.decode(errors="replace"))


def check(status: int, comm: Optional[c_void_p] = None) -> None:
    """Raises if `status` is an error."""
    if status:
        raise error_of(status, comm)


class Config:
    """Options for one call that makes a communicator: a context that gives a tutti_config_t."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._handle = c_void_p()
        self._options = options

    def __enter__(self) -> c_void_p:
        check(library.tutti_config_create(ctypes.byref(self._handle)))
        try:
            for name, value in self._options.items():
                text = str(int(value)) if isinstance(value, bool) else str(value)
                check(library.tutti_config_set(self._handle, name.encode(), text.encode()))
        except BaseException:
            self.__exit__()
            raise
        return self._handle

    def __exit__(self, *_: object) -> None:
        library.tutti_config_destroy(self._handle)
