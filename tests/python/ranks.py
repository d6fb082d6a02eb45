"""Ranks for the tests: threads of this process, each with a communicator, or processes that `tutti run` starts."""

import os
import subprocess
import sys
import threading
import traceback

import tutti

OPTIONS = {"calibration": "off", "timeout_ms": 30000}


def run(function, size=2, **options):
    """What `function(comm)` returned on each rank."""
    key, results, failures = tutti.unique_id(), [None] * size, []

    def rank_main(rank):
        try:
            with tutti.Communicator(size, key, rank, **{**OPTIONS, **options}) as comm:
                results[rank] = function(comm)
        except BaseException:
            failures.append(f"rank {rank}:\n{traceback.format_exc()}")

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures or any(thread.is_alive() for thread in threads):
        raise AssertionError("\n".join(failures) or "ranks did not end")
    return results


def launch(program, size=2, arguments=()):
    """Starts `tutti run` with a Python program (text), whose ranks have the package of these tests."""
    command = [os.environ["COMMAND"], "run", "-n", str(size), "--no-prefix", "--env", "TUTTI_CALIBRATION=off",
               sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process, limit_s=60):
    """What `process` of launch() ended with, and what it has written. One that does not end in time fails the test,
    with what it has written until then."""
    try:
        out, error = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # `tutti run` ends its ranks
        try:
            out, error = process.communicate(timeout=20)
        finally:
            process.kill()
        raise AssertionError(f"no end after {limit_s} s; it has written\n{out}{error}") from None
    finally:
        process.kill()
    return process.returncode, out, error
