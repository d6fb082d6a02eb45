"""What people get wrong, and what goes wrong around them: one clear sentence and a status within the deadline."""

import contextlib
import json
import os
import secrets
import signal
import socket
import threading
import unittest

import harness
import job

BENCH = (harness.TUTTI, "bench", "all_reduce", "-b", "8", "-e", "64K", "-f", "32", "-n", "2", "-w", "1")
ROWS = 3
SOON = {"TUTTI_BOOTSTRAP_TIMEOUT_MS": "2000"}
LAST_SENTENCE = "[tutti] error: out of memory; free memory, or raise the limit (ulimit -v)\n"


class Joining(job.JobTest):
    def check_refused(self, end, pattern):
        self.assertEqual((end.status, end.out), (1, ""), end)
        self.check_sentence(end.err, pattern)

    def check_joined(self, ends):
        self.assertEqual([end.status for end in ends], [0] * len(ends), ends)
        self.check_table(ends[0].out, ROWS)

    def test_without_one_rank_names_it_at_the_deadline(self):
        for missing in (0, 1):
            with self.subTest(missing=missing):
                shared = self.by_hand(3, TUTTI_BOOTSTRAP_TIMEOUT_MS="800")
                started = job.now()
                present = self.ranks(BENCH, 3, shared, ranks={0, 1, 2} - {missing})
                ends = [self.ended(process) for process in present]
                took = job.now() - started
                for end in ends:
                    self.check_refused(end, rf"\brank {missing}\b")
                self.assertGreater(took, 0.7)

    def test_without_several_ranks_names_them(self):
        end, = map(self.ended, self.ranks(BENCH, 4, self.by_hand(4, TUTTI_BOOTSTRAP_TIMEOUT_MS="500"), ranks=[0]))
        self.check_refused(end, r"ranks 1(, 2,? and 3|, 2, 3|-3| to 3) of 4 have not joined after \d+ ms")

    def test_with_a_wrong_secret_is_told_to_both(self):
        shared = self.by_hand(2, **SOON)
        right, = self.ranks(BENCH, 2, shared, ranks=[0])
        other = self.file("wrong", secrets.token_bytes(32))
        wrong, = self.ranks(BENCH, 2, {**shared, "TUTTI_SECRET_FILE": other}, ranks=[1])
        self.check_refused(self.ended(wrong), r"the secret of this process is not the job's: check TUTTI_SECRET_FILE")
        end = self.ended(right)
        self.assertEqual(end.status, 1)
        self.assertRegex(end.err, r"rank 1 of 2 has not joined .* wrong secret were refused: check TUTTI_SECRET_FILE")

    def test_with_a_secret_that_others_can_read_is_refused(self):
        shared = self.by_hand(2, **SOON)
        os.chmod(shared["TUTTI_SECRET_FILE"], 0o644)
        for process in self.ranks(BENCH, 2, shared):
            self.check_refused(self.ended(process), r"can be read by others than this user: chmod 600 it")

    def test_on_a_port_that_another_process_holds_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            end, = map(self.ended, self.ranks(BENCH, 2, self.by_hand(2, f"127.0.0.1:{port}", **SOON), ranks=[0]))
        self.check_refused(end, rf"port {port} is in use by another process: choose another port for TUTTI_ADDRESS")

    def test_at_a_port_where_something_else_answers_is_told(self):
        for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", secrets.token_bytes(4096)):
            with self.subTest(answer=answer[:10]), socket.create_server(("127.0.0.1", 0)) as server:
                answering = threading.Thread(target=self.answer_all, args=(server, answer))
                answering.start()
                address = "127.0.0.1:%d" % server.getsockname()[1]
                end, = map(self.ended, self.ranks(BENCH, 2, self.by_hand(2, address, **SOON), ranks=[1]))
                server.shutdown(socket.SHUT_RDWR)
                answering.join()
                self.check_refused(end, address)

    def answer_all(self, server, answer):
        with contextlib.suppress(OSError):  # the server's end
            while True:
                with server.accept()[0] as peer, contextlib.suppress(OSError):
                    peer.sendall(answer)

    def test_goes_on_among_strangers(self):
        port = job.free_port()
        shared = self.by_hand(2, f"127.0.0.1:{port}")
        first, = self.ranks(BENCH, 2, shared, ranks=[0])
        with contextlib.ExitStack() as strangers:
            for words in (b"GET / HTTP/1.1\r\n\r\n", secrets.token_bytes(100_000), b"", b"\x16\x03\x01\xff\xff"):
                self.eventually(lambda: self.connected(port, words, strangers), "rank 0 listens")
            second, = self.ranks(BENCH, 2, shared, ranks=[1])
            self.check_joined([self.ended(first), self.ended(second)])

    def connected(self, port, words, strangers):
        try:
            stranger = strangers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        except ConnectionRefusedError:
            return False
        with contextlib.suppress(OSError):  # it may be shown the door while it talks
            stranger.sendall(words)
        return True

    def test_with_different_options_names_option_values_and_ranks(self):
        for name, values in (("TUTTI_ALGORITHM", ("ring", "direct_two_shot")), ("TUTTI_SLOTS", ("4", "5")),
                             ("TUTTI_TRANSPORT", ("shm", "tcp"))):
            shared = self.by_hand(2)
            with self.subTest(name=name):
                started = [process for rank, value in enumerate(values)
                           for process in self.ranks(BENCH, 2, {**shared, name: value}, ranks=[rank])]
                for process in started:
                    self.check_refused(self.ended(process),
                                       f"{name} is '{values[0]}' on rank 0 and '{values[1]}' on rank 1")


class Options(job.JobTest):
    def test_that_are_unknown_warn_with_the_nearest_name(self):
        end = self.run_command(BENCH, {"TUTTI_ALGORITM": "ring"})
        self.assertEqual(end.status, 0)
        self.check_sentence(end.err, r"warning: environment variable TUTTI_ALGORITM is no option .* "
                                     r"did you mean TUTTI_ALGORITHM\?")

    def test_with_a_wrong_value_name_what_is_right(self):
        for name, value, sentence in (("TUTTI_TIMEOUT_MS", "soon", "TUTTI_TIMEOUT_MS. must be a whole number from 1"),
                                      ("TUTTI_TRANSPORT", "udp", "must be shm, tcp, verbs or loopback, not 'udp'"),
                                      ("TUTTI_ALGORITHM", "rong", 'no algorithm is called "rong"; did you mean "ring"'),
                                      ("TUTTI_INTERFACE", "eth99",
                                       'TUTTI_INTERFACE is "eth99", but this host has only')):
            with self.subTest(name=name):
                for process in self.ranks(BENCH, 2, self.by_hand(2, **{**SOON, name: value})):
                    end = self.ended(process)
                    self.assertNotEqual(end.status, 0)
                    self.check_sentence(end.err, sentence)

    def test_of_the_command_line_that_are_wrong_are_status_2_and_one_sentence(self):
        for flags in (("--no-such-flag",), ("-b", "x"), ("-b", "2M", "-e", "1M"), ("-d", "float128"), ("-o", "xor"),
                      ("-n", "-1"), ("--ranks", "0")):
            with self.subTest(flags=flags):
                end = self.run_command([harness.TUTTI, "bench", "all_reduce", *flags])
                self.assertEqual((end.status, end.out), (2, ""))
                self.check_sentence(end.err, r"^tutti bench")


class Leaving(job.JobTest):
    """The last rank makes fewer calls than the others and finalizes."""

    def check(self, ranks, calls, transport):
        shared = self.by_hand(ranks, TUTTI_TRANSPORT=transport)
        with self.subTest(ranks=ranks, calls=calls, transport=transport):
            program = [job.program("loop_until_error"), 8, "malloc"]
            stay = self.ranks(program, ranks, shared, ranks=range(ranks - 1))
            leave, = self.ranks([*program, calls], ranks, shared, ranks=[ranks - 1])
            for process in stay:
                end = self.ended(process)
                self.assertEqual(end.status, 3, end)
                self.check_sentence(end.err, rf"^rank {ranks - 1} has finalized and makes no more calls, but rank \d "
                                             rf"called all_reduce #{calls + 1} .*; all ranks must make the same calls")
            self.assertIn(self.ended(leave).status, (0, 3))  # 3: it was still waiting for the others' last call

    def test_before_the_first_call_ends_the_others(self):
        for ranks in (2, 3, 6):
            for transport in ("shm", "tcp"):
                self.check(ranks, 0, transport)

    def test_before_the_last_call_ends_the_others(self):
        for ranks in (2, 3):
            for transport in ("shm", "tcp"):
                self.check(ranks, 5, transport)


class PlanFile(job.JobTest):
    def plan(self, ranks, algorithm):
        end = self.run_command([harness.TUTTI, "plan", "all_reduce", "--ranks", ranks, "--algorithm", algorithm,
                                "--steps", "--json"])
        self.assertEqual((end.status, end.err), (0, ""))
        return json.loads(end.out)["plan"]

    def run_plan(self, ranks, text, **variables):
        shared = self.by_hand(ranks, TUTTI_PLAN_FILE=self.file("plan.json", text), **variables)
        return [self.ended(process) for process in self.ranks(BENCH, ranks, shared)]

    def check_refused(self, text, pattern, ranks=2):
        for end in self.run_plan(ranks, text):
            self.assertEqual((end.status, end.out), (1, ""))
            self.check_sentence(end.err, pattern)

    def test_that_is_sound_runs(self):
        for algorithm in ("ring", "double_binary_tree"):
            ends = self.run_plan(3, json.dumps(self.plan(3, algorithm)))
            self.assertEqual([(end.status, end.err) for end in ends], [(0, "")] * 3)
            for path in self.check_table(ends[0].out, ROWS):
                self.assertIn(algorithm, path)

    def test_that_is_no_json_is_refused_with_the_line(self):
        self.check_refused('{\n  "format": "tutti.plan",\n  oops\n}\n',
                           r"plan\.json is no valid plan: line 3: .*; correct the file, ")

    def test_that_is_empty_is_refused(self):
        self.check_refused("", r"plan\.json")

    def test_of_another_format_is_refused(self):
        self.check_refused('{"format": "tutti.topology"}', r'line 1: "format" must be "tutti\.plan"')

    def test_that_is_not_there_is_named(self):
        for process in self.ranks(BENCH, 2, self.by_hand(2, TUTTI_PLAN_FILE="/no/such/plan.json")):
            self.check_sentence(self.ended(process).err,
                                r"cannot open /no/such/plan\.json: No such file.*; name a file")

    def test_that_only_one_rank_has_is_refused_when_joining(self):
        plan = self.file("plan.json", json.dumps(self.plan(2, "ring")))
        shared = self.by_hand(2)
        started = [*self.ranks(BENCH, 2, shared, ranks=[0]),
                   *self.ranks(BENCH, 2, {**shared, "TUTTI_PLAN_FILE": plan}, ranks=[1])]
        for process in started:
            end = self.ended(process)
            self.assertEqual((end.status, end.out), (1, ""))
            self.check_sentence(end.err, r"TUTTI_PLAN_FILE is '' on rank 0 and 'the plan [0-9a-f]{16}' on rank 1; "
                                         r"name files with the same plan on all ranks")

    def test_for_another_number_of_ranks_is_refused(self):
        self.check_refused(json.dumps(self.plan(3, "ring")), r"\b3 ranks\b.*\b2\b", ranks=2)

    def test_with_a_wait_that_nobody_answers_is_refused_with_the_reason(self):
        plan = self.plan(2, "ring")
        steps = plan["parts"][0]["sections"][0]["steps"]
        steps.append({"kind": "wait", "peer": 1})
        self.check_refused(json.dumps(plan), r"rank [01]\b.*\b(put|wait)")

    def test_that_needs_more_slots_than_are_certain_to_be_free_is_refused(self):
        # Rank 0 sends rank 1 five signals, of which that releases one, before rank 2 may go on: four slots would do if
        # every release were told at once.
        def put(to):
            return {"kind": "put", "peer": to}

        def wait(for_):
            return {"kind": "wait", "peer": for_}

        before = [[put(1)] * 5 + [put(2)], [wait(0), wait(2)] + [wait(0)] * 4, [wait(0), put(1)]]
        plan = self.plan(3, "direct_one_shot")
        for part in plan["parts"]:
            section = part["sections"][0]
            section["steps"] = before[part["rank"]] + section["steps"]
        plan["shape"]["slice_bytes"] = 16384
        text = json.dumps(plan)
        for end in self.run_plan(3, text, TUTTI_SLOTS="4"):
            self.assertEqual(end.status, 1, end)
            self.check_sentence(end.err, r"blocks for ever with 3 slots")
        for end in self.run_plan(3, text, TUTTI_SLOTS="6"):
            self.assertEqual((end.status, end.err), (0, ""), end)

    def test_whose_partial_results_have_no_room_in_a_slot_is_refused(self):
        plan = self.plan(3, "ring")
        plan["shape"]["slice_bytes"] = 4096
        shared = self.by_hand(3, TUTTI_PLAN_FILE=self.file("plan.json", json.dumps(plan)), TUTTI_SLOT_BYTES="4096")
        for datatype, status in (("float", 0), ("half", 1)):
            ends = [self.ended(process) for process in self.ranks([*BENCH, "-d", datatype], 3, shared)]
            self.assertEqual([end.status for end in ends], [status] * 3, ends)
        # Who is refused first aborts the communicator for the others.
        self.assertRegex("".join(end.err for end in ends), r"slices of 4096 bytes, of which partial results in float32 "
                                                           r"take 8192; set TUTTI_SLOT_BYTES=8192 on all ranks")

    def test_together_with_what_it_overrules_is_refused(self):
        for end in self.run_plan(2, json.dumps(self.plan(2, "ring")), TUTTI_ALGORITHM="direct_one_shot"):
            self.assertEqual(end.status, 1, end)
            self.check_sentence(end.err, r"TUTTI_PLAN_FILE says which plan runs; leave out TUTTI_ALGORITHM")

    def test_that_gives_a_wrong_result_is_refused(self):
        plan = self.plan(2, "ring")
        for part in plan["parts"]:
            for step in part["sections"][0]["steps"]:
                if step["kind"] == "reduce":
                    step["sources"] = step["sources"][:1]  # this rank's own contribution is left out
        for end in self.run_plan(2, json.dumps(plan)):
            self.assertEqual(end.status, 1, end)
            self.check_sentence(end.err, r"lacks the contribution of rank \d.*; correct the file, docs/plans\.md")


@unittest.skipIf(job.SANITIZED, "sanitizers need more address space than any limit on it")
class Memory(job.JobTest):
    COMMAND = (harness.TUTTI, "bench", "all_reduce", "-b", "16M", "-e", "16M", "-n", "2", "-w", "1", "--memory")

    def limited(self, limit_kib):
        return ["sh", "-c", f'ulimit -v {limit_kib}; exec "$@"', "sh"]

    def check(self, memory, limits_kib):
        """Ranks with these limits (None: none) end well, or with a sentence each; returns whether they ended well.

        Where a thread of the library's own cannot have a few bytes, that is the last sentence of the process.
        """
        shared = self.by_hand(len(limits_kib), **SOON)
        started = [self.rank([*self.COMMAND, memory], {**shared, "TUTTI_RANK": str(rank)},
                             before=self.limited(limit) if limit else []) for rank, limit in enumerate(limits_kib)]
        ends = [self.ended(process) for process in started]
        if all(end.status == 0 for end in ends):
            self.check_table(ends[0].out, 1)
            return True
        for rank, end in enumerate(ends):
            if end.err == LAST_SENTENCE:
                self.assertEqual(end.status, -signal.SIGABRT, end)
                continue
            self.assertEqual(end.status, 1, end)  # not a signal
            self.check_sentence(end.err, r"^tutti bench all_reduce: ")
            self.assertNotRegex(end.err, rf"rank {rank}: link to rank {rank}\b")
        self.assertRegex("".join(end.err for end in ends), r"free memory|raise the limits on threads and memory")
        return False

    def test_that_is_short_on_all_ranks_or_one(self):
        for memory in ("malloc", "tutti"):
            for limit_kib in range(25_000, 145_001, 10_000):
                for limits_kib in ((limit_kib, limit_kib), (None, limit_kib), (limit_kib, None)):
                    with self.subTest(memory=memory, limits_kib=limits_kib):
                        well = self.check(memory, limits_kib)
                        if limit_kib < 40_000:
                            self.assertFalse(well)


if __name__ == "__main__":
    job.main()
