"""What calls take, and what they refuse."""

import array
import importlib.util
import unittest

import numpy as np
import ranks

import tutti


def alone():
    return tutti.Communicator(1, tutti.unique_id(), 0, **ranks.OPTIONS)


class Refused(unittest.TestCase):
    def setUp(self):
        self.comm = alone()
        self.addCleanup(self.comm.close)

    def refused(self, error, text, call, *arguments, **more):
        with self.assertRaisesRegex(error, text):
            call(*arguments, **more)
        self.comm.barrier()  # nothing has happened

    def test_what_is_no_contiguous_array_of_numbers(self):
        square = np.ones((4, 4))
        self.refused(ValueError, "not contiguous", self.comm.all_reduce, square[:, ::2])
        self.refused(ValueError, "not contiguous", self.comm.all_reduce, np.asfortranarray(np.ones((2, 3))))
        self.refused(TypeError, "list is no array", self.comm.all_reduce, [1, 2])
        self.refused(TypeError, "Python objects", self.comm.all_gather, np.array([{}, None]))
        self.refused(TypeError, "byte order", self.comm.all_gather, np.ones(2, ">f8"))

    def test_where_results_cannot_go(self):
        fixed = np.ones(2)
        fixed.flags.writeable = False
        self.refused(ValueError, "read-only", self.comm.all_reduce, fixed)
        self.refused(ValueError, "read-only", self.comm.recv, b"12")
        self.refused(ValueError, "out must have 3 elements, but has 2", self.comm.all_reduce, np.ones(3), np.ones(2))
        self.refused(TypeError, "both must be of one type", self.comm.all_gather, np.ones(3), np.ones((1, 3), int))

    def test_what_a_type_cannot_do(self):
        self.refused(TypeError, "int16 has no SUM", self.comm.all_reduce, np.ones(2, np.int16))
        self.refused(TypeError, r"float64 has no BAND \(it has: AVG, MAX, MIN, PROD, SUM\)", self.comm.all_reduce,
                     np.ones(2), op=tutti.BAND)
        self.refused(TypeError, "bool has no AVG", self.comm.all_reduce, np.ones(2, bool), op=tutti.AVG)
        self.refused(TypeError, "complex64 has no MAX", self.comm.all_reduce, np.ones(2, "c8"), op=tutti.MAX)

    def test_counts_that_do_not_fit(self):
        self.refused(ValueError, "must have 2 elements, but has 3", self.comm.all_gather_v, np.ones(3), [2])
        self.refused(ValueError, "an entry for each of the 1 ranks", self.comm.all_gather_v, np.ones(1), [1, 2])
        self.refused(ValueError, "negative", self.comm.all_to_all_v, np.ones(3), [-1], [3])
        self.refused(ValueError, "must have 4 elements", self.comm.all_to_all_v, np.ones(3), [4], [4])
        self.refused(ValueError, "must have 9 elements", self.comm.all_gather_v, np.ones(3), [3], np.ones(5), [6])
        self.refused(TypeError, "the root has to give counts", self.comm.gather_v, np.ones(3))
        self.refused(ValueError, "128 bytes, not 3", tutti.Communicator, 1, b"abc", 0)

    def test_what_the_library_refuses_has_its_sentence(self):
        with self.assertRaisesRegex(tutti.Error, "root 7 is no rank; ranks are 0 to 0") as caught:
            self.comm.broadcast(np.ones(1), root=7)
        self.assertEqual(caught.exception.status, tutti.Status.INVALID_ARGUMENT)
        with self.assertRaisesRegex(tutti.Error, "timeout_ms"):
            tutti.init(timeout=3)
        self.assertEqual(self.comm.status, tutti.Status.SUCCESS)


class Taken(unittest.TestCase):
    def test_what_has_the_buffer_protocol(self):
        def check(comm):
            doubles = array.array("d", [comm.rank + 1.0] * 3)
            self.assertIs(comm.all_reduce(doubles), doubles)
            self.assertEqual(list(doubles), [3.0] * 3)
            text = bytearray(b"rank 0" if comm.rank == 0 else b"------")
            comm.broadcast(memoryview(text))
            self.assertEqual(text, b"rank 0")
            shorts = comm.all_gather(array.array("h", [comm.rank]))
            self.assertEqual(shorts.tolist(), [[0], [1]])
            self.assertEqual(comm.all_gather(np.float32(comm.rank)).tolist(), [0, 1])
        ranks.run(check, 2)

    def test_arrays_without_elements(self):
        def check(comm):
            self.assertEqual(comm.all_gather(np.empty((0, 3))).shape, (2, 0, 3))
            self.assertEqual(comm.all_reduce(np.empty(0)).size, 0)
        ranks.run(check, 2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_tensors_of_torch(self):
        import torch

        def check(comm):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
                tensor = torch.full((2, 3), comm.rank, dtype=dtype)
                self.assertIs(comm.all_reduce(tensor, op=tutti.MAX), tensor)
                self.assertTrue((tensor == 1).all(), dtype)
            sent, got = torch.tensor([float("nan")]), torch.zeros(2, 1)
            comm.all_gather(sent, got)
            self.assertTrue(got.isnan().all())
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                comm.all_reduce(torch.ones(3, 2).t())
        ranks.run(check, 2)

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "ml_dtypes is not installed")
    def test_short_floats_of_ml_dtypes(self):
        import ml_dtypes

        def check(comm):
            for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
                own = np.full(5, comm.rank + 1, getattr(ml_dtypes, name))
                np.testing.assert_array_equal(comm.all_reduce(own.copy()).astype(float), np.full(5, 3.0))
                self.assertEqual(comm.all_gather(own).dtype, own.dtype)
        ranks.run(check, 2)
