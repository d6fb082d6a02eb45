"""`tutti run`: statuses, output, signals, and that no process outlives its job."""

import collections
import os
import pty
import signal
import subprocess
import sys
import time

import harness
from harness import ToolTest

# A grandchild in a session of its own that ignores polite signals, told of by a line; the rank waits for SIGUSR1.
DAEMON = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print('daemon', flush=True)
    os.close(1)
    os.close(2)
    time.sleep(1000)
os.wait()
signal.sigwait([signal.SIGUSR1])
"""


class Statuses(ToolTest):
    def test_is_0_when_every_rank_exits_with_0(self):
        done = self.tutti("run", "-n", 3, "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_is_the_failing_ranks_and_the_sentence_names_it(self):
        done = self.tutti("run", "-n", 3, "--", "sh", "-c", "test $TUTTI_RANK = 1 && exit 7; exec sleep 1000")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr,
                         r"^tutti run: rank 1 \(process \d+\) exited with status 7; ending the other 2 ranks\n$")

    def test_is_128_and_the_number_of_the_signal_that_ended_a_rank(self):
        done = self.tutti("run", "-n", 2, "sh", "-c", "test $TUTTI_RANK = 0 && kill -KILL $$; exec sleep 1000")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        self.assertRegex(done.stderr,
                         r"rank 0 \(process \d+\) was ended by signal 9 \(Killed\); ending the other rank\n")

    def test_is_127_for_a_command_that_is_not_there(self):
        done = self.tutti("run", "-n", 4, "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stderr,
                         'tutti run: there is no command "no-such-command"; give its path, or check PATH\n')

    def test_is_126_for_a_file_that_cannot_be_executed(self):
        done = self.tutti("run", "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        self.assertEqual(done.stderr, 'tutti run: cannot execute "/etc/passwd": Permission denied\n')

    def test_is_124_after_the_timeout(self):
        done = self.tutti("run", "-n", 2, "--timeout", 0.2, "sleep", 1000)
        self.assertEqual(done.returncode, 124)
        self.assertEqual(done.stderr, "tutti run: the job did not end within 0.2 s; ending it\n")

    def test_is_2_for_wrong_usage(self):
        for arguments in (["run"], ["run", "-n", 0, "true"], ["run", "-n", "x", "true"],
                          ["run", "--no-such-flag", "true"], ["run", "--env", "NOEQUALS", "true"], ["rum"], []):
            done = self.tutti(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("did you mean `tutti run`?", self.tutti("rum").stderr)


class Ranks(ToolTest):
    def test_know_who_they_are_and_share_one_id_each_through_a_file_of_its_own(self):
        script = "import os; print(os.environ['TUTTI_RANK'], os.environ['TUTTI_SIZE'], " \
                 "os.read(int(os.environ['TUTTI_ID_FD']), 1000).hex())"
        done = self.tutti("run", "-n", 3, "--no-prefix", sys.executable, "-c", script)
        lines = sorted(line.split() for line in done.stdout.splitlines())
        self.assertEqual([line[:2] for line in lines], [["0", "3"], ["1", "3"], ["2", "3"]])
        self.assertEqual(len({line[2] for line in lines}), 1)
        self.assertEqual(len(lines[0][2]), 2 * 128)

    def test_get_what_env_adds(self):
        done = self.tutti("run", "--env", "A=b c", "--env", "D=", "--", "sh", "-c", 'echo "$A|$D|"')
        self.assertEqual(done.stdout, "[0] b c||\n")

    def test_inherit_no_file_but_their_streams_the_id_and_the_host(self):
        done = self.tutti("run", "-n", 2, "--no-prefix", sys.executable, "-c",
                          "import os; print(os.listdir('/proc/self/fd'))")
        for line in done.stdout.splitlines():
            files = set(eval(line))
            self.assertLessEqual({"0", "1", "2"}, files)
            self.assertEqual(len(files), 6, line)  # and the folder that is being listed

    def test_only_the_first_reads_standard_input(self):
        done = self.tutti("run", "-n", 3, "cat", input="one\ntwo\n")
        self.assertEqual(done.stdout, "[0] one\n[0] two\n")

    def test_are_bound_to_their_share_of_the_cores(self):
        script = "import os; print(sorted(os.sched_getaffinity(0)))"
        done = self.tutti("run", "-n", 2, "--bind", "spread", "--no-prefix", sys.executable, "-c", script)
        cores = sorted(os.sched_getaffinity(0))
        shares = [cores[:len(cores) // 2], cores[len(cores) // 2:]] if len(cores) > 1 else [cores, cores]
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(map(str, shares)))

    def test_may_be_jobs_themselves(self):
        done = self.tutti("run", "-n", 2, harness.TUTTI, "run", "-n", 2, "sh", "-c", "echo $TUTTI_RANK of $TUTTI_SIZE")
        self.assertRegex(done.stderr, r"^\[0\] tutti run: tutti run started this 2 times: there are 2 jobs of 2 ranks")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["[0] [0] 0 of 2", "[0] [1] 1 of 2", "[1] [0] 0 of 2", "[1] [1] 1 of 2"])


class OtherLaunchers(ToolTest):
    """Inside of another launcher each `tutti run` is a job of its own."""

    def run_inside(self, **variables):
        """Which of the variables the ranks see, and what is said."""
        self.environment.update(variables)
        done = self.tutti("run", "-n", 2, "--no-prefix", "env")
        self.assertEqual(done.returncode, 0)
        return {line.split("=")[0] for line in done.stdout.splitlines()} & set(variables), done.stderr

    def test_are_not_seen_by_the_ranks(self):
        torchrun = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "1", "MASTER_PORT": "1"}
        for variables in ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "1"},
                          {"PMI_RANK": "1", "PMI_SIZE": "3", "PMI_FD": "9", "MPI_LOCALNRANKS": "3"},
                          {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}, torchrun):
            with self.subTest(variables=variables):
                before = dict(self.environment)
                self.assertEqual(self.run_inside(**variables), (set(), ""))
                self.environment = before

    def test_that_start_several_are_told_of_once(self):
        names, said = self.run_inside(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="3")
        self.assertEqual(names, set())
        self.assertEqual(said, "tutti run: mpirun started this 3 times: there are 3 jobs of 2 ranks that know nothing "
                               "of each other; for one job use one launcher only\n")

    def test_that_start_one_are_nothing_to_tell(self):
        self.assertEqual(self.run_inside(PMI_RANK="0", PMI_SIZE="1"), (set(), ""))

    def test_that_are_only_configured_keep_their_variables(self):
        variables = {"OMPI_MCA_btl": "self", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "MASTER_ADDR": "a", "RANK": "0"}
        self.assertEqual(self.run_inside(**variables), (set(variables), ""))


class Output(ToolTest):
    def test_is_tagged_by_rank_and_the_last_line_completed(self):
        done = self.tutti("run", "-n", 2, "--", "sh", "-c", "echo out $TUTTI_RANK; printf 'last'; echo err >&2")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] last", "[0] out 0", "[1] last", "[1] out 1"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] err", "[1] err"])

    def test_can_go_without_tags(self):
        for flag in (["--no-prefix"], ["--tag", "none"]):
            self.assertEqual(self.tutti("run", *flag, "echo", "x").stdout, "x\n")

    def test_passes_the_commands_own_dashes_on(self):
        done = self.tutti("run", "-n", 1, "--", "printf", "%s ", "-e", "-n", "--", "x")
        self.assertEqual(done.stdout, "[0] -e -n -- x \n")
        self.assertEqual(self.tutti("run", "-n", 1, "echo", "a", "--", "--tag").stdout, "[0] a -- --tag\n")

    def test_of_64_ranks_keeps_every_line_whole_and_in_order(self):
        script = "import os; r = os.environ['TUTTI_RANK']; print('\\n'.join(f'{r} {i} ' + r * 300 for i in range(300)))"
        done = self.tutti("run", "-n", 64, sys.executable, "-S", "-c", script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        following = collections.Counter()
        for line in done.stdout.splitlines():
            tag, rank, index, text = line.split()
            self.assertEqual((tag, int(index), text), (f"[{rank}]", following[rank], rank * 300))
            following[rank] += 1
        self.assertEqual(set(following.values()), {300})
        self.assertEqual(len(following), 64)

    def test_that_nobody_reads_ends_the_job_as_it_ends_a_program(self):
        process = self.start("run", "yes")
        self.assertEqual(process.stdout.readline(), "[0] y\n")
        process.stdout.close()
        self.assertEqual(process.wait(harness.LIMIT_S), 128 + signal.SIGPIPE)

    def test_that_waits_for_its_reader_does_not_keep_signals_waiting(self):
        process = self.start("run", "yes")
        process.stdout.readline()
        time.sleep(0.2)  # its pipe is full now
        process.terminate()
        self.eventually(lambda: len(self.living()) <= 1, "the rank ends")
        process.stdout.read()
        self.assertEqual(process.wait(harness.LIMIT_S), 128 + signal.SIGTERM)


class FullOutput(ToolTest):
    def test_is_told_in_one_sentence(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([harness.TUTTI, "run", "-n", "2", "--", "sh", "-c", "while echo line; do :; done"],
                                  stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=self.environment, timeout=harness.LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^tutti run: cannot write what the ranks print: No space left .*\n$")


class Signals(ToolTest):
    def test_are_passed_on(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            with self.subTest(name):
                script = f"trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done"
                process = self.start("run", "-n", 2, "sh", "-c", script)
                self.assertEqual(self.expect_lines(process, 2), ["[0] ready", "[1] ready"])
                process.send_signal(getattr(signal, "SIG" + name))
                self.assertEqual(self.expect_lines(process, 2), [f"[0] got {name}", f"[1] got {name}"])
                self.assertEqual(process.wait(harness.LIMIT_S), 0)

    def test_that_ranks_survive_do_not_end_the_job(self):
        process = self.start("run", "sh", "-c", "trap 'echo got' USR1; echo ready; sleep 0.3 & wait; wait; echo done")
        self.assertEqual(self.expect_lines(process, 1), ["[0] ready"])
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.read(), "[0] got\n[0] done\n")
        self.assertEqual(process.wait(harness.LIMIT_S), 0)

    def test_repeated_end_ranks_that_ignore_them(self):
        process = self.start("run", "--grace", 0.1, "sh", "-c",
                             "trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
        self.expect_lines(process, 1)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        self.assertEqual(process.wait(harness.LIMIT_S), 128 + signal.SIGINT)

    def test_that_are_ignored_stay_ignored(self):
        process = self.start("run", "sh", "-c", "echo ready; sleep 0.3; echo done",
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.expect_lines(process, 1)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.stdout.read(), "[0] done\n")
        self.assertEqual(process.wait(harness.LIMIT_S), 0)

    def test_stop_and_continue_the_whole_job(self):
        process = self.start("run", "-n", 2, "sh", "-c", "echo ready; while :; do sleep 0.02; done")
        self.expect_lines(process, 2)
        process.send_signal(signal.SIGTSTP)
        self.eventually(lambda: self.states(process.pid).count("T") >= 3, "launcher and ranks stop")
        process.send_signal(signal.SIGCONT)
        self.eventually(lambda: "T" not in self.states(process.pid), "all go on")
        process.terminate()
        self.assertEqual(process.wait(harness.LIMIT_S), 128 + signal.SIGTERM)

    def states(self, launcher):
        def state(pid):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    return file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                return "?"
        return [state(pid) for pid in self.living()]

    def test_of_the_terminal_reach_each_rank_once(self):
        script = "trap 'echo interrupt' INT; echo ready; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; cat"
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(harness.TUTTI, ["tutti", "run", "-n", "2", "sh", "-c", script], self.environment)
        with os.fdopen(terminal, "rb", 0) as reader:
            text = self.read_until(reader, b"", lambda text: text.count(b"ready") == 2)
            os.write(terminal, b"\x03")  # Ctrl-C
            text = self.read_until(reader, text, lambda text: text.count(b"] interrupt") == 2)
            os.write(terminal, b"typed\n\x04")  # a line for rank 0, and the end of its input
            text = self.read_until(reader, text, lambda text: b"[0] typed" in text)
            text = self.read_to_end(reader, text)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, text)
        self.assertEqual(text.count(b"] interrupt"), 2)

    def read_until(self, reader, text, condition):
        while not condition(text):
            piece = reader.read(4096)
            self.assertTrue(piece, text)
            text += piece
        return text

    def read_to_end(self, reader, text):
        try:
            while piece := reader.read(4096):
                text += piece
        except OSError:  # a terminal whose last user has gone
            pass
        return text


class Orphans(ToolTest):
    def started(self, ranks, *flags, then=""):
        process = self.start("run", "-n", ranks, *flags, sys.executable, "-c", DAEMON + then)
        self.assertEqual(self.expect_lines(process, ranks), [f"[{rank}] daemon" for rank in range(ranks)])
        self.assertGreaterEqual(len(self.living()), 2 * ranks + 2)
        return process

    def keeper_of(self, process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def test_do_not_remain_when_the_launcher_is_killed(self):
        process = self.started(4)
        process.kill()
        self.eventually(lambda: not self.living(), "every process ends")

    def test_do_not_remain_when_the_keeper_is_killed(self):
        process = self.started(4)
        os.kill(self.keeper_of(process), signal.SIGKILL)
        self.assertEqual(process.wait(harness.LIMIT_S), 1)
        self.assertEqual(self.living(), [])

    def test_do_not_remain_when_the_launcher_is_killed_while_it_is_stopped(self):
        process = self.started(2)
        process.send_signal(signal.SIGSTOP)
        process.kill()
        self.eventually(lambda: not self.living(), "every process ends")

    def test_do_not_remain_when_launcher_and_keeper_are_killed_at_once(self):
        process = self.start("run", "-n", 4, "sh", "-c", "echo ready; exec sleep 1000")
        self.expect_lines(process, 4)
        keeper = self.keeper_of(process)
        process.send_signal(signal.SIGSTOP)  # it is not to help
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        self.eventually(lambda: not self.living(), "every rank ends")

    def test_do_not_remain_when_a_rank_fails(self):
        process = self.started(3, "--grace", 0.1,
                               then="sys.exit(5 if os.environ['TUTTI_RANK'] == '2' else time.sleep(1000))")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(harness.LIMIT_S), 5)
        self.assertEqual(self.living(), [])

    def test_do_not_remain_when_all_ranks_succeed(self):
        process = self.started(2, "--grace", 0.1)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(harness.LIMIT_S), 0)
        self.assertEqual(self.living(), [])

    def test_do_not_remain_when_a_job_inside_a_job_is_killed(self):
        process = self.start("run", "-n", 2, harness.TUTTI, "run", "-n", 2, sys.executable, "-c", DAEMON)
        self.expect_lines(process, 4)
        process.kill()
        self.eventually(lambda: not self.living(), "every process ends")

    def test_among_ranks_that_ignore_sigterm_are_killed_after_the_grace_period(self):
        script = "trap '' TERM; echo ready; test $TUTTI_RANK = 1 && exit 9; while :; do sleep 0.05; done"
        done = self.tutti("run", "-n", 2, "--grace", 0.1, "sh", "-c", script)
        self.assertEqual(done.returncode, 9)

    def test_among_stopped_ranks_are_ended_too(self):
        script = "if test $TUTTI_RANK = 0; then kill -STOP $$; else sleep 0.3; exit 4; fi"
        self.assertEqual(self.tutti("run", "-n", 2, "--grace", 1000, "--", "sh", "-c", script).returncode, 4)


if __name__ == "__main__":
    harness.main()
