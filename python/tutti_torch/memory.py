"""Memory that the ranks of a host reach directly: the gradients' buckets without a copy.

Ordinary memory is not touched unless the program asks for it here.
"""

from functools import cache


@cache
def _pool():
    from . import _load

    return _load().Pool()


@cache
def _registrar():
    from . import _load

    return _load().Registrar()


def empty(*sizes, dtype=None):
    """torch.empty() in memory that other ranks of the host reach directly, which saves collectives copies.

    What is freed is kept for the next tensor of its size.
    """
    import torch

    shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return _pool().empty(list(shape), torch.get_default_dtype() if dtype is None else dtype)


class Registration:
    """Tensors whose memory is registered until release(), or the end of a `with`. It keeps their memory."""

    def __init__(self, tensors):
        from . import _load

        make = _load().Registration
        self.tensors = tensors
        self._kept = [make(_registrar(), tensor) for tensor in tensors]

    def release(self):
        """Makes it ordinary memory again. No call may be using it."""
        self._kept.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def register_memory(*tensors):
    """Makes the memory of these tensors (all of their storage) one that other ranks of the host reach directly.

    Its pages move onto shared memory in place. Until release()
      - a forked child does not have this memory: a data loader's worker that touches it ends;
      - the storage must not be resized (FSDP1 does that to its flat parameters).
    """
    return Registration(tensors)


class Buckets:
    """The buckets of a DistributedDataParallel, registered when they are first exchanged, until release()."""

    def __init__(self, group):
        self._group = group
        self._registered = {}  # by the bucket's place: its address, its registration
        self._seen = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def release(self):
        """Makes them ordinary memory again. Between two steps; the next one registers them anew."""
        for _, registration in self._registered.values():
            registration.release()
        self._registered.clear()

    def exchange(self, bucket):
        """What DDP calls for each bucket: its future gives the average of all ranks."""
        import torch.distributed as dist

        tensor = bucket.buffer()
        self._look_at(bucket, tensor)
        work = dist.all_reduce(tensor, dist.ReduceOp.AVG, group=self._group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def _look_at(self, bucket, tensor):
        """DDP makes new buckets after the first step: those that do not come any more are let go."""
        index, address = bucket.index(), tensor.data_ptr()
        known = self._registered.get(index)
        if known is None or known[0] != address:
            self._registered[index] = (address, Registration([tensor]))
        self._seen.add(index)
        if bucket.is_last():
            for gone in self._registered.keys() - self._seen:
                del self._registered[gone]
            self._seen.clear()


def register_buckets(model):
    """Averages the gradients of a DistributedDataParallel `model` in registered buckets. Gives its Buckets.

    It takes the place of DDP's communication hook, which a model has once: call it before the first step. What
    register_memory() says holds here.
    """
    buckets = Buckets(model.process_group)
    model.register_comm_hook(state=buckets, hook=Buckets.exchange)
    return buckets
