"""Every call gives what numpy says."""

import unittest

import numpy as np
import ranks

import tutti

DTYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]
OF_NUMPY = {
    tutti.SUM: np.add, tutti.PROD: np.multiply, tutti.MAX: np.maximum, tutti.MIN: np.minimum,
    tutti.BAND: np.bitwise_and, tutti.BOR: np.bitwise_or, tutti.BXOR: np.bitwise_xor,
}


def values(rank, shape, dtype):
    """Small whole numbers, so that every order of adding gives the same bits; others on each rank."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + rank * 5) % 11 % 4 + 1).astype(dtype).reshape(shape)


def of_all(size, shape, dtype):
    return [values(rank, shape, dtype) for rank in range(size)]


class Reductions(unittest.TestCase):
    def test_all_reduce_of_every_type_and_operation(self):
        def check(comm):
            for dtype in DTYPES:
                for op, combine in OF_NUMPY.items():
                    if np.dtype(dtype).kind == "f" and op in (tutti.BAND, tutti.BOR, tutti.BXOR):
                        continue
                    expected = combine.reduce(of_all(comm.size, (3, 5), dtype), dtype=dtype)
                    array = values(comm.rank, (3, 5), dtype)
                    out = np.empty_like(array)
                    self.assertIs(comm.all_reduce(array, out, op), out)
                    np.testing.assert_array_equal(out, expected, f"{dtype} {op}")
                    self.assertIs(comm.all_reduce(array, op=op), array)
                    np.testing.assert_array_equal(array, expected)
        ranks.run(check, 3)

    def test_averages(self):
        def check(comm):
            for dtype in (np.float32, np.float64):
                got = comm.all_reduce(values(comm.rank, (7,), dtype), op=tutti.AVG)
                np.testing.assert_array_equal(got, np.mean(of_all(comm.size, (7,), dtype), axis=0))
        ranks.run(check, 4)

    def test_bools_and_complex_numbers(self):
        def check(comm):
            flags = np.array([[True, False, False], [True, True, False]][comm.rank])
            np.testing.assert_array_equal(comm.all_reduce(flags.copy()), [True, True, False])
            np.testing.assert_array_equal(comm.all_reduce(flags.copy(), op=tutti.PROD), [True, False, False])
            np.testing.assert_array_equal(comm.all_reduce(flags, op=tutti.BXOR), [False, True, False])
            for dtype in (np.complex64, np.complex128):
                own = np.array([1 + 2j, 3j], dtype) * (comm.rank + 1)
                np.testing.assert_array_equal(comm.all_reduce(own), np.array([3 + 6j, 9j], dtype))
        ranks.run(check, 2)

    def test_the_root_alone_gets_what_reduce_combines(self):
        def check(comm):
            expected = np.sum(of_all(comm.size, (4,), np.float32), axis=0)
            for root in range(comm.size):
                own = values(comm.rank, (4,), np.float32)
                got = comm.reduce(own, root=root)
                self.assertEqual(got is None, comm.rank != root)
                if got is not None:
                    np.testing.assert_array_equal(got, expected)
                    self.assertIs(comm.reduce(own, own, root=root), own)
                    np.testing.assert_array_equal(own, expected)
                else:
                    comm.reduce(own, root=root)
        ranks.run(check, 3)

    def test_reduce_scatter(self):
        def check(comm):
            own = values(comm.rank, (6, 2), np.int32)
            total = np.sum(of_all(comm.size, (6, 2), np.int32), axis=0)
            rows = slice(2 * comm.rank, 2 * comm.rank + 2)
            np.testing.assert_array_equal(comm.reduce_scatter(own), total[rows])
            counts = [1, 0, 11]
            begin = sum(counts[:comm.rank])
            np.testing.assert_array_equal(comm.reduce_scatter_v(own, counts),
                                          total.ravel()[begin:begin + counts[comm.rank]])
        ranks.run(check, 3)


class WhoHasWhat(unittest.TestCase):
    def test_broadcast(self):
        def check(comm):
            for root in range(comm.size):
                array = values(comm.rank, (5,), np.int16)
                self.assertIs(comm.broadcast(array, root), array)
                np.testing.assert_array_equal(array, values(root, (5,), np.int16))
            fixed = np.arange(3)
            fixed.flags.writeable = comm.rank != 0
            comm.broadcast(fixed)
        ranks.run(check, 3)

    def test_all_gather_and_gather(self):
        def check(comm):
            for dtype in (np.float64, np.bool_, np.complex64, np.int16, np.dtype("M8[s]"), np.dtype("S3"),
                          np.dtype([("key", "i4"), ("value", "f8")])):
                own = np.frombuffer(values(comm.rank, (2 * np.dtype(dtype).itemsize,), np.uint8) % 2, dtype)
                everything = np.stack([np.frombuffer(values(rank, (2 * np.dtype(dtype).itemsize,), np.uint8) % 2,
                                                     dtype) for rank in range(comm.size)])
                got = comm.all_gather(own)
                self.assertEqual((got.dtype, got.shape), (everything.dtype, (comm.size, 2)))
                self.assertEqual(got.tobytes(), everything.tobytes())
                at_root = comm.gather(own, root=1)
                self.assertEqual(at_root is None, comm.rank != 1)
                if at_root is not None:
                    self.assertEqual(at_root.tobytes(), everything.tobytes())
        ranks.run(check, 3)

    def test_blocks_of_different_sizes(self):
        def check(comm):
            counts = [3, 0, 2]
            own = np.full(counts[comm.rank], comm.rank, np.complex64)
            np.testing.assert_array_equal(comm.all_gather_v(own, counts), [0, 0, 0, 2, 2])
            spread = np.full(8, 7, np.complex64)
            comm.all_gather_v(own, counts, spread, displacements=[5, 0, 1])
            np.testing.assert_array_equal(spread, [7, 2, 2, 7, 7, 0, 0, 0])
            got = comm.gather_v(own, counts if comm.rank == 0 else None)
            if comm.rank == 0:
                np.testing.assert_array_equal(got, [0, 0, 0, 2, 2])
            mine = np.empty(counts[comm.rank], np.int64)
            source = np.arange(5) if comm.rank == 2 else None
            comm.scatter_v(source, counts if comm.rank == 2 else None, mine, root=2)
            np.testing.assert_array_equal(mine, np.arange(5)[[slice(0, 3), slice(3, 3), slice(3, 5)][comm.rank]])
        ranks.run(check, 3)

    def test_scatter(self):
        def check(comm):
            out = np.empty(2)
            self.assertIs(comm.scatter(np.arange(6.0).reshape(3, 2) if comm.rank == 1 else None, out, root=1), out)
            np.testing.assert_array_equal(out, np.arange(6.0)[2 * comm.rank:2 * comm.rank + 2])
        ranks.run(check, 3)

    def test_all_to_all(self):
        def check(comm):
            own = 10 * comm.rank + np.arange(3)
            np.testing.assert_array_equal(comm.all_to_all(own), 10 * np.arange(3) + comm.rank)
            send_counts = [comm.rank + peer for peer in range(3)]
            send = np.concatenate([np.full(count, 10 * comm.rank + peer) for peer, count in enumerate(send_counts)])
            got = comm.all_to_all_v(send, send_counts, send_counts)
            expected = [np.full(peer + comm.rank, 10 * peer + comm.rank) for peer in range(3)]
            np.testing.assert_array_equal(got, np.concatenate(expected))
        ranks.run(check, 3)


class Messages(unittest.TestCase):
    def test_by_rank_and_tag_or_from_any(self):
        def check(comm):
            if comm.rank == 0:
                comm.send(np.arange(4, dtype=np.complex128), 1, tag=7)
                comm.send(np.ones(2), 1, tag=8)
                return
            room = np.zeros(9, np.complex128)
            later = np.empty(2)
            self.assertEqual(comm.recv(later, 0, 8).tag, 8)
            message = comm.recv(room)
            self.assertEqual((message.source, message.tag, message.count), (0, 7, 4))
            np.testing.assert_array_equal(room, [0, 1, 2, 3, 0, 0, 0, 0, 0])
        ranks.run(check, 2)

    def test_all_in_a_ring_at_once(self):
        def check(comm):
            got = np.empty(1 << 18)
            following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            message = comm.send_recv(np.full(1 << 18, comm.rank, float), following, got, before)
            self.assertEqual((message.source, message.count), (before, 1 << 18))
            self.assertTrue((got == before).all())
        ranks.run(check, 3)
