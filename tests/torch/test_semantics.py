"""What happens when and in which thread: futures, dropped works, timeouts, deaths, aborts, several groups."""

import gc
import os
import signal
import threading
import time
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from group import hear, run, tell

# ---- Works and futures


def futures(rank, size):
    total = size * (size + 1) / 2
    tensor = torch.full((1000,), float(rank + 1))
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert future.wait()[0] is not None and tensor.eq(total).all()

    done = threading.Event()
    tensor = torch.full((1000,), float(rank + 1))
    chained = dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: (done.set(), f.value()[0] / size)[1])
    torch.testing.assert_close(chained.wait(), torch.full((1000,), total / size))
    assert done.is_set()

    # One that starts the next call.
    first = torch.full((10,), float(rank + 1))
    second = torch.full((10,), float(rank + 1))
    chained = dist.all_reduce(first, async_op=True).get_future().then(
        lambda _: dist.all_reduce(second, async_op=True).wait())
    chained.wait()
    assert first.eq(total).all() and second.eq(total).all()

    work = dist.all_reduce(first, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success()
    assert work.get_future().value()[0] is not None
    work = dist.irecv(torch.empty(3), (rank + 1) % size)
    assert not work.is_completed()
    dist.barrier()
    dist.send(torch.ones(3), (rank - 1) % size)
    while not work.is_completed():
        time.sleep(0.001)
    assert work.is_success()


@pytest.mark.parametrize("size", (2, 3))
def test_futures(size):
    run(futures, size)


def dropped(rank, size):
    for _ in range(50):
        dist.all_reduce(torch.full((500,), float(rank)), async_op=True)
        dist.isend(torch.full((7,), float(rank)), (rank + 1) % size)
        gc.collect()
    received = torch.empty(7)
    for _ in range(50):
        dist.recv(received, (rank - 1) % size)
        assert received.eq((rank - 1) % size).all()
    kept = torch.full((500,), float(rank))
    works = [dist.all_reduce(kept, async_op=True) for _ in range(5)]
    works[-1].wait()
    assert kept.eq(size * (size - 1) / 2 * size**4).all()


def test_works_may_be_dropped():
    run(dropped, 2)


# ---- Threads and groups


def two_groups(rank, size):
    groups = [dist.new_group(list(range(size))) for _ in range(2)]
    wrong = []

    def use(group, factor):
        for i in range(100):
            tensor = torch.full((1 + 37 * i,), float(factor * (rank + 1)))
            dist.all_reduce(tensor, group=group)
            if not tensor.eq(factor * size * (size + 1) / 2).all():
                wrong.append((factor, i))

    threads = [threading.Thread(target=use, args=(group, i + 1)) for i, group in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def one_group(rank, size):
    """A thread waits for messages that come only after collectives of another one."""
    wrong = []

    def listen():
        for i in range(30):
            received = torch.empty(5)
            dist.recv(received, (rank + 1) % size, tag=i)
            if not received.eq(i).all():
                wrong.append(i)

    listener = threading.Thread(target=listen)
    listener.start()
    for i in range(30):
        tensor = torch.ones(2000)
        dist.all_reduce(tensor, async_op=i % 2 == 0)
        if i % 2 == 1:
            assert tensor.eq(size).all()
        dist.send(torch.full((5,), float(i)), (rank - 1) % size, tag=i)
    listener.join()
    assert not wrong


@pytest.mark.parametrize("function", (two_groups, one_group))
def test_threads(function):
    run(function, 2)


def split_off(rank, size):
    """split() and subgroups of single ranks."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "tutti" and backend.rank() == rank and backend.size() == size
    alone = [dist.new_group([each]) for each in range(size)]
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=alone[rank])
    assert tensor.eq(1).all()
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 1

    for name in ("first", "second"):  # the same ranks, in another order than the group's
        half = dist.group.WORLD.split_group([2, 0], timeout=timedelta(seconds=20), group_name=name)
        assert (half is None) == (rank == 1)
        if half is None:
            continue
        assert half.size() == 2 and half._get_backend(torch.device("cpu")).name() == "tutti"
        tensor = torch.full((4,), float(rank))
        half.allreduce([tensor]).wait()
        assert tensor.eq(2).all()
    dist.barrier()


def test_subgroups_and_sequence_numbers():
    run(split_off, 3)


# ---- Errors


def sentence_of(function):
    with pytest.raises(dist.DistBackendError) as caught:
        function()
    return str(caught.value)


def late_rank(rank, size, how):
    if rank == 1:
        hear("the others have given up")
        return None
    if how == "group":
        said = sentence_of(lambda: dist.all_reduce(torch.ones(4)))
    elif how == "work":
        work = dist.all_reduce(torch.ones(4), async_op=True)
        said = sentence_of(lambda: work.wait(timedelta(milliseconds=400)))
    elif how == "call":
        said = sentence_of(lambda: dist.barrier(timeout=timedelta(milliseconds=400)))
    elif how == "recv":
        said = sentence_of(lambda: dist.recv(torch.ones(4), 1))
    else:
        with pytest.raises(Exception) as caught:
            dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()
        said = str(caught.value)
    tell("the others have given up")
    assert "Timed out waiting" in said, said
    if how != "work":
        assert "rank 1" in said and "did not" in said, said


@pytest.mark.parametrize("how", ("group", "work", "call", "recv", "future"))
def test_timeouts_name_the_late_rank(how):
    limit = timedelta(seconds=60) if how in ("work", "call") else timedelta(seconds=1)
    run(late_rank, 2, timeout=limit, arguments=(how,))


def killed_peer(rank, size, how):
    dist.barrier()
    if rank == 1:
        if how == "recv":
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    calls = {"all_reduce": lambda: dist.all_reduce(torch.ones(1_000_000)), "recv": lambda: dist.recv(torch.ones(4), 1)}
    said = sentence_of(calls[how])
    assert "rank 1" in said and "Timed out" not in said, said
    # The group stays failed, and says the same.
    assert "rank 1" in sentence_of(lambda: dist.all_reduce(torch.ones(4)))


@pytest.mark.parametrize("how", ("all_reduce", "recv"))
def test_a_killed_rank_is_named_at_once(how):
    run(killed_peer, 3, arguments=(how,), may_die=(1,))


def aborted(rank, size):
    dist.barrier()
    if rank == 1:
        hear("the wait has ended")
        return
    errors = []

    def wait():
        try:
            dist.recv(torch.ones(4), 1)
        except dist.DistBackendError as error:
            errors.append(str(error))

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.3)
    dist.group.WORLD._get_backend(torch.device("cpu")).abort()
    waiter.join(30)
    assert not waiter.is_alive()
    tell("the wait has ended")
    assert len(errors) == 1 and "abort" in errors[0], errors
    assert "abort" in sentence_of(lambda: dist.all_reduce(torch.ones(4)))


def test_abort_ends_the_wait_of_another_thread():
    run(aborted, 2)


def different_calls(rank, size):
    said = sentence_of(lambda: dist.all_reduce(torch.ones(4 + rank)))
    assert "rank 0 called" in said and "rank 1 called" in said, said


def test_ranks_that_differ_are_both_named():
    run(different_calls, 2)


def shut_down(rank, size):
    work = dist.all_reduce(torch.ones(10), async_op=True)
    tensor = work.result()[0]
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.destroy_process_group()
    work.wait()
    assert tensor.eq(size).all()
    with pytest.raises(dist.DistBackendError, match="shut down"):
        backend.allreduce([torch.ones(3)]).wait()


def test_after_shutdown_works_can_be_waited_for_and_calls_are_refused():
    run(shut_down, 2)


def monitored(rank, size):
    import tutti_torch

    tutti_torch.monitored_barrier()
    if rank == 0:
        said = sentence_of(lambda: tutti_torch.monitored_barrier(timeout=2))
        assert "Rank 1 failed to pass monitoredBarrier in 2000 ms" in said, said
    elif rank == 2:  # which has waited long enough before rank 0 knows
        said = sentence_of(lambda: tutti_torch.monitored_barrier(timeout=1.5))
        assert "successfully reached" in said and "Rank 1 failed" in said, said
    # Nobody was hurt.
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.eq(size).all()


def test_a_monitored_barrier_that_fails_names_who_is_late_and_leaves_the_group_alone():
    run(monitored, 3)


def all_late_but_two(rank, size):
    import tutti_torch

    dist.barrier()
    if rank == 0:
        said = sentence_of(lambda: tutti_torch.monitored_barrier(timeout=0.5, wait_all_ranks=True))
        assert "Ranks 1, 3 failed" in said, said
    elif rank == 2:
        said = sentence_of(lambda: tutti_torch.monitored_barrier(timeout=5))
        assert "Ranks 1, 3 failed" in said, said
    dist.barrier()


def test_a_monitored_barrier_names_all_that_are_late():
    run(all_late_but_two, 4)


def without_rank_0(rank, size):
    import tutti_torch

    dist.barrier()
    if rank != 0:
        said = sentence_of(lambda: tutti_torch.monitored_barrier(timeout=0.3))
        assert "rank 0 did not come in time" in said, said
    dist.barrier()


def test_a_monitored_barrier_that_rank_0_does_not_reach_says_so():
    run(without_rank_0, 3)


def profiled(rank, size):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(10))
        dist.all_reduce(torch.ones(10), async_op=True).wait()
    assert sum(event.name == "tutti:all_reduce" for event in profiler.events()) == 2


def test_the_profiler_sees_the_calls():
    run(profiled, 2)


# ---- Packaging


def test_another_torch_is_refused_with_one_sentence(monkeypatch):
    import tutti_torch

    monkeypatch.setattr(torch, "__version__", "1.2.3")
    with pytest.raises(ImportError, match="was built for torch .* but this is torch 1.2.3"):
        tutti_torch._load()


def test_autoload_loads_no_library_and_never_raises(monkeypatch, capsys):
    import tutti_torch

    monkeypatch.setattr(tutti_torch, "register", lambda: 1 / 0)
    with pytest.warns(UserWarning, match="could not register"):
        tutti_torch._autoload()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tutti_torch._autoload()
    assert "could not register itself with torch.distributed: division by zero" in capsys.readouterr().err
