"""Requests, prepared calls and groups; and how communicators begin, fail and end."""

import gc
import pickle
import time
import unittest

import numpy as np
import ranks

import tutti


class Requests(unittest.TestCase):
    def test_give_what_the_blocking_calls_give(self):
        def check(comm):
            array = np.full(1000, comm.rank + 1.0)
            started = [comm.start.all_reduce(array), comm.start.all_gather(np.array([comm.rank])),
                       comm.start.reduce(np.ones(2), root=1), comm.start.barrier()]
            total, gathered, reduced, nothing = tutti.wait_all(started)
            self.assertIs(total, array)
            self.assertEqual((total[0], gathered.tolist(), nothing), (3, [[0], [1]], None))
            self.assertEqual(None if reduced is None else reduced.tolist(), [None, [2, 2]][comm.rank])
            self.assertIs(started[0].wait(), array)
            self.assertTrue(started[0].test())
        ranks.run(check, 2)

    def test_that_nobody_waits_for_keep_their_arrays(self):
        def check(comm):
            for step in range(200):
                comm.start.all_reduce(np.full(5000, float(step)))
                comm.start.send(np.full(50, float(step)), 1 - comm.rank)
            gc.collect()
            got = np.empty(50)
            for step in range(200):
                comm.recv(got, 1 - comm.rank)
                self.assertTrue((got == step).all())
            comm.barrier()
            comm._sweep(at_least=1)
            return len(comm._orphans)
        self.assertEqual(ranks.run(check, 2), [0, 0])

    def test_the_first_of_several(self):
        def check(comm):
            if comm.rank == 0:
                comm.send(np.ones(1), 1, tag=2)
                comm.barrier()
                comm.send(np.ones(1), 1, tag=1)
                return
            requests = [comm.start.recv(np.empty(1), 0, tag) for tag in (1, 2)]
            self.assertFalse(requests[0].test())
            self.assertEqual(tutti.wait_any(requests), 1)
            self.assertEqual(requests[1].wait().tag, 2)
            comm.barrier()
            self.assertEqual(tutti.wait_any(requests), 0)
            self.assertIsNone(tutti.wait_any(requests))
        ranks.run(check, 2)

    def test_prepared_calls_are_started_many_times(self):
        def check(comm):
            array = np.ones(3)
            prepared = comm.prepare.all_reduce(array)
            for _ in range(3):
                prepared.start().wait()
            self.assertEqual(array.tolist(), [8, 8, 8])
            prepared.start()  # closing the communicator waits for it
        ranks.run(check, 2)

    def test_a_deadline_of_ones_own_names_the_late_rank(self):
        def check(comm):
            if comm.rank == 0:
                with self.assertRaisesRegex(tutti.Error, "rank 1") as caught:
                    comm.start(timeout_ms=300).recv(np.empty(1), 1).wait()
                self.assertEqual(caught.exception.status, tutti.Status.TIMEOUT)
                self.assertEqual(comm.status, tutti.Status.TIMEOUT)
                with self.assertRaises(tutti.Error):
                    comm.barrier()
                comm._destroy()
            else:
                time.sleep(1)
                with self.assertRaises(tutti.Error):
                    comm.barrier()
                comm._destroy()
        ranks.run(check, 2)


class Groups(unittest.TestCase):
    def test_messages_and_collectives_in_any_order(self):
        def check(comm):
            peer, got = 1 - comm.rank, np.empty(1)
            with tutti.group():
                total = comm.all_reduce(np.ones(2))
                comm.send(np.full(1, comm.rank, float), peer)
                with tutti.group():
                    message = comm.recv(got, peer)
                rows = comm.all_gather(np.array([comm.rank]))
            self.assertEqual((total.tolist(), got[0], message.source, rows.tolist()), ([2, 2], peer, peer, [[0], [1]]))
        ranks.run(check, 2)

    def test_an_exception_gives_the_group_up(self):
        def check(comm):
            array = np.ones(2)
            with self.assertRaisesRegex(KeyError, "mine"):
                with tutti.group():
                    comm.all_reduce(array)
                    if comm.rank == 0:
                        comm.send(array, 1)
                    raise KeyError("mine")
            self.assertEqual(array.tolist(), [1, 1])
            self.assertEqual(comm.all_reduce(array).tolist(), [2, 2])
        ranks.run(check, 2)

    def test_refused_calls_end_with_their_sentence(self):
        comm = tutti.Communicator(1, tutti.unique_id(), 0, **ranks.OPTIONS)
        with self.assertRaisesRegex(tutti.Error, "root 3 is no rank"):
            with tutti.group():
                comm.broadcast(np.ones(1), root=3)
        comm.close()


class Communicators(unittest.TestCase):
    def test_are_split_and_duplicated(self):
        def check(comm):
            part = comm.split(comm.rank % 2, key=-comm.rank)
            self.assertEqual((part.size, part.rank), ([2, 1, 2][comm.rank], [1, 0, 0][comm.rank]))
            self.assertIsNone(comm.split(-1))
            with comm.dup(timeout_ms=9000) as twin:
                self.assertEqual(twin.all_reduce(np.ones(1))[0], 3)
            part.close()
            part.close()
            with self.assertRaisesRegex(tutti.Error, "closed"):
                part.barrier()
            self.assertIn("closed", repr(part))
        ranks.run(check, 3)

    def test_registered_memory_gives_the_same_results(self):
        def check(comm):
            array = np.full(1 << 17, comm.rank + 1.0)
            with comm.register(array):
                self.assertTrue((comm.all_reduce(array) == 3).all())
            self.assertTrue((comm.all_reduce(array) == 6).all())
        ranks.run(check, 2)

    def test_abort_fails_all(self):
        def check(comm):
            if comm.rank == 1:
                comm.abort()
            with self.assertRaises(tutti.Error) as caught:
                comm.all_reduce(np.ones(1))
            self.assertEqual(caught.exception.status, tutti.Status.ABORTED)
            copy = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((copy.status, str(copy)), (caught.exception.status, str(caught.exception)))
            comm._destroy()
        ranks.run(check, 2)


PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import tutti
comm = tutti.init()
"""


class Processes(unittest.TestCase):
    def test_join_by_their_launcher_and_leave_without_closing(self):
        program = PROGRAM + "print(int(comm.all_reduce(np.array([comm.rank + 1]))[0]))"
        self.assertEqual(ranks.ended(ranks.launch(program, 3)), (0, "6\n6\n6\n", ""))

    def test_an_exception_in_one_is_heard_by_the_others(self):
        program = PROGRAM + """
if comm.rank == 1:
    request = comm.start.recv(np.empty(1), 0)
    raise KeyError("mine")
try:
    comm.barrier()
except tutti.Error as error:
    print("heard:", error, flush=True)
    time.sleep(1)
"""
        status, out, error = ranks.ended(ranks.launch(program, 2))
        self.assertNotEqual(status, 0)
        self.assertRegex(out, "heard: .*rank 1")
        self.assertIn("KeyError: 'mine'", error)

    def test_interrupt_while_waiting(self):
        program = PROGRAM + """
comm.barrier()
if comm.rank == 1:
    try:
        comm.recv(np.empty(1), 0)
    except tutti.Error as error:
        print("rank 1:", error.status.name, flush=True)
else:
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        comm.barrier()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
        status, out, _ = ranks.ended(ranks.launch(program, 2))
        self.assertEqual(sorted(out.splitlines()), ["interrupted", "rank 1: ABORTED"])
        self.assertEqual(status, 0)

    def test_a_forked_child_leaves_the_parents_communicators_alone(self):
        program = PROGRAM + """
child = os.fork()
if child == 0:
    try:
        comm.barrier()
    except tutti.Error as error:
        print("child:", "cannot be used here" in str(error), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print("parent:", comm.all_reduce(np.ones(1))[0])
"""
        status, out, error = ranks.ended(ranks.launch(program, 2))
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(sorted(out.splitlines()), ["child: True"] * 2 + ["parent: 2.0"] * 2)


if __name__ == "__main__":
    unittest.main()
