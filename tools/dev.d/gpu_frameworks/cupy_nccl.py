"""CuPy's own NCCL module on a preloaded libnccl.so.2, among two processes that share one GPU."""

import multiprocessing

RANKS = 2


def main(rank, unique_id):
    import cupy
    from cupy.cuda import nccl

    comm = nccl.NcclCommunicator(RANKS, unique_id, rank)
    stream = cupy.cuda.get_current_stream().ptr
    numbers = cupy.arange(1000, dtype=cupy.float32) * (rank + 1)
    sums = cupy.empty_like(numbers)
    comm.allReduce(numbers.data.ptr, sums.data.ptr, numbers.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream)
    assert (sums.get() == 3 * cupy.arange(1000).get()).all(), "all_reduce"
    comm.broadcast(numbers.data.ptr, sums.data.ptr, numbers.size, nccl.NCCL_FLOAT32, 1, stream)
    assert (sums.get() == 2 * cupy.arange(1000).get()).all(), "broadcast"
    got = cupy.zeros_like(numbers)
    nccl.groupStart()
    comm.send(numbers.data.ptr, numbers.size, nccl.NCCL_FLOAT32, 1 - rank, stream)
    comm.recv(got.data.ptr, got.size, nccl.NCCL_FLOAT32, 1 - rank, stream)
    nccl.groupEnd()
    assert (got.get() == (2 - rank) * cupy.arange(1000).get()).all(), "messages"
    comm.destroy()


def unique_id_to(pipe):
    from cupy.cuda import nccl

    pipe.send(nccl.get_unique_id())
    pipe.recv()  # the id's maker lives until all have joined


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    maker = context.Process(target=unique_id_to, args=(theirs,))
    maker.start()
    key = ours.recv()
    ranks = [context.Process(target=main, args=(rank, key)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(50)
    ours.send("done")
    maker.join(10)
    assert [process.exitcode for process in ranks] == [0] * RANKS, [process.exitcode for process in ranks]
