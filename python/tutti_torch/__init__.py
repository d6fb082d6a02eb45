"""tutti for PyTorch: after `import torch`, torch.distributed.init_process_group("tutti") works.

Importing this package loads nothing: the library comes with the first process group.
"""

import atexit
import sys
import warnings
from datetime import timedelta
from functools import cache

from .memory import empty, register_buckets, register_memory

__all__ = ["NAME", "Options", "empty", "monitored_barrier", "register", "register_buckets", "register_memory"]

NAME = "tutti"


class Options:
    """Options of tutti for one group: init_process_group("tutti", pg_options=Options(transport="tcp")).

    The names are those of docs/options.md, in lower case and without TUTTI_; they win over the environment.
    """

    def __init__(self, **settings):
        self.settings = {name: str(value) for name, value in settings.items()}

    def __repr__(self):
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


def register():
    """Makes the name "tutti" known to torch.distributed. May be called any number of times."""
    from torch.distributed import Backend

    if NAME.upper() not in Backend._plugins:
        Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """torch.distributed.monitored_barrier(), which torch up to 2.13 refuses to any backend that is not called gloo."""
    from torch.distributed import distributed_c10d as c10d

    if c10d._rank_not_in_group(group):
        return
    if timeout is None:
        timeout = c10d._get_default_timeout(NAME)
    elif not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


def _autoload():
    """What `import torch` calls in the end. Whatever is wrong, torch itself has to work: this never raises."""
    try:
        import torch.distributed

        if torch.distributed.is_available():
            register()
    except Exception as problem:
        said = f"tutti could not register itself with torch.distributed: {problem}"
        try:
            warnings.warn(said, stacklevel=2)
        except Warning:  # where warnings are errors
            print(said, file=sys.stderr)


@cache
def _load():
    """The extension module. It is for one minor version of torch: c10d has no stable binary interface."""
    import torch

    from . import built_for

    def minor(version):
        return version.split("+")[0].split(".")[:2]

    again = "build it again: pip install --no-build-isolation --force-reinstall --no-deps ./python"
    if not built_for.TORCH:
        raise ImportError(
            f"tutti was built where no torch was installed (pip builds apart from what is installed); {again}"
        )
    if minor(torch.__version__) != minor(built_for.TORCH):
        raise ImportError(
            f"tutti was built for torch {built_for.TORCH}, but this is torch {torch.__version__}; {again}"
        )
    from . import _C

    atexit.register(_C.stop_watchers)
    return _C


def _create(options, pg_options):
    """Makes the backend of one process group. Blocks until all of its ranks have come."""
    return _load().create(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout=options.timeout,
        settings=getattr(pg_options, "settings", {}),
    )
