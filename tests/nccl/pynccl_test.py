#!/usr/bin/env python3
"""A loader like vLLM's: NCCL by ctypes alone, with the seventeen functions and signatures that vLLM asks for.

Usage: pynccl_test.py LIBRARY [RANKS]. Ranks are processes, on memory of the host (TUTTI_NCCL_HOST_MEMORY=1).
"""

import ctypes
import multiprocessing
import sys

UniqueId = type("UniqueId", (ctypes.Structure,), {"_fields_": [("internal", ctypes.c_byte * 128)]})
Result, Comm, Stream, Window, Buffer = ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
Type = Op = ctypes.c_int
FLOAT32, INT64, SUM, MAX = 7, 4, 0, 2

FUNCTIONS = {
    "ncclGetErrorString": (ctypes.c_char_p, [Result]),
    "ncclGetVersion": (Result, [ctypes.POINTER(ctypes.c_int)]),
    "ncclGetUniqueId": (Result, [ctypes.POINTER(UniqueId)]),
    "ncclCommInitRank": (Result, [ctypes.POINTER(Comm), ctypes.c_int, UniqueId, ctypes.c_int]),
    "ncclAllReduce": (Result, [Buffer, Buffer, ctypes.c_size_t, Type, Op, Comm, Stream]),
    "ncclReduce": (Result, [Buffer, Buffer, ctypes.c_size_t, Type, Op, ctypes.c_int, Comm, Stream]),
    "ncclAllGather": (Result, [Buffer, Buffer, ctypes.c_size_t, Type, Comm, Stream]),
    "ncclReduceScatter": (Result, [Buffer, Buffer, ctypes.c_size_t, Type, Op, Comm, Stream]),
    "ncclSend": (Result, [Buffer, ctypes.c_size_t, Type, ctypes.c_int, Comm, Stream]),
    "ncclRecv": (Result, [Buffer, ctypes.c_size_t, Type, ctypes.c_int, Comm, Stream]),
    "ncclBroadcast": (Result, [Buffer, Buffer, ctypes.c_size_t, Type, ctypes.c_int, Comm, Stream]),
    "ncclCommDestroy": (Result, [Comm]),
    "ncclCommAbort": (Result, [Comm]),
    "ncclGroupStart": (Result, []),
    "ncclGroupEnd": (Result, []),
    "ncclCommWindowRegister": (Result, [Comm, Buffer, ctypes.c_size_t, ctypes.POINTER(Window), ctypes.c_int]),
    "ncclCommWindowDeregister": (Result, [Comm, Window]),
}


class Nccl:
    """The library: each function raises what is no success."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.functions = {}
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function

    def __getattr__(self, name):
        function = self.functions["nccl" + name]

        def checked(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"{name}: {self.functions['ncclGetErrorString'](result).decode()}")
        return checked


def floats(values):
    values = list(values)
    return (ctypes.c_float * len(values))(*values)


def expect(name, got, wanted):
    if list(got) != list(wanted):
        raise AssertionError(f"{name}: {list(got)} and not {list(wanted)}")


def run_rank(path, rank, ranks, id_bytes):
    nccl = Nccl(path)
    comm, stream = Comm(), Stream(rank + 1)  # no stream: memory of the host takes none
    nccl.CommInitRank(ctypes.byref(comm), ranks, UniqueId.from_buffer_copy(id_bytes), rank)

    own, result = floats(rank + i for i in range(5)), floats([0] * 5)
    nccl.AllReduce(own, result, 5, FLOAT32, SUM, comm, stream)
    sums = [sum(r + i for r in range(ranks)) for i in range(5)]
    expect("all_reduce", result, sums)
    nccl.Reduce(own, result, 5, FLOAT32, MAX, ranks - 1, comm, stream)
    expect("reduce", result, [ranks - 1 + i for i in range(5)] if rank == ranks - 1 else sums)
    gathered = floats([0] * (5 * ranks))
    nccl.AllGather(own, gathered, 5, FLOAT32, comm, stream)
    expect("all_gather", gathered, [r + i for r in range(ranks) for i in range(5)])
    block = floats([0] * 5)
    nccl.ReduceScatter(gathered, block, 5, FLOAT32, SUM, comm, stream)
    expect("reduce_scatter", block, [ranks * (rank + i) for i in range(5)])
    numbers = (ctypes.c_int64 * 3)(*([7, 8, 9] if rank == 0 else [0] * 3))
    nccl.Broadcast(numbers, numbers, 3, INT64, 0, comm, stream)
    expect("broadcast", numbers, [7, 8, 9])

    nccl.GroupStart()
    nccl.Send(own, 5, FLOAT32, (rank + 1) % ranks, comm, stream)
    nccl.Recv(block, 5, FLOAT32, (rank - 1) % ranks, comm, stream)
    nccl.GroupEnd()
    expect("send and recv", block, [(rank - 1) % ranks + i for i in range(5)])

    window = Window()
    nccl.CommWindowRegister(comm, own, ctypes.sizeof(own), ctypes.byref(window), 1)
    nccl.CommWindowDeregister(comm, window)
    nccl.CommDestroy(comm)


def main():
    path, ranks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    nccl, version, unique_id, alone = Nccl(path), ctypes.c_int(), UniqueId(), UniqueId()
    nccl.GetVersion(ctypes.byref(version))
    expect("version", [version.value], [22809])
    nccl.GetUniqueId(ctypes.byref(unique_id))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=run_rank, args=(path, rank, ranks, bytes(unique_id))) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    codes = [process.exitcode for process in processes]
    nccl.GetUniqueId(ctypes.byref(alone))
    comm = Comm()
    nccl.CommInitRank(ctypes.byref(comm), 1, alone, 0)
    nccl.CommAbort(comm)
    print(f"{ranks} ranks ended with {codes}")
    return 0 if codes == [0] * ranks else 1


if __name__ == "__main__":
    sys.exit(main())
