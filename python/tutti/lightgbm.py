"""LightGBM's distributed training on a communicator, in place of its own sockets.

    with tutti.init() as comm, tutti.lightgbm.network(comm) as parameters:
        data = lightgbm.Dataset(my_rows, my_labels, params=parameters)
        booster = lightgbm.train({"objective": "binary", **parameters}, data)

Each rank has rows of its own; all get the same trees.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_void_p
from typing import Any

from ._communicator import Communicator
from ._library import check, open_library


@contextmanager
def network(comm: Communicator, tree_learner: str = "data") -> Iterator[dict[str, Any]]:
    """Inside, what LightGBM does in this thread goes over `comm`, which makes no other calls meanwhile.

    Gives the parameters that Dataset and train() need: num_machines and tree_learner ("data" or "voting": LightGBM's
    C API has no others). Errors of tutti are LightGBMErrors that hold its sentence.
    """
    library = importlib.import_module("lightgbm.basic")._LIB
    adapter = open_library("libtutti_lightgbm.so")
    adapter.tutti_lightgbm_use.argtypes = [c_void_p]
    check(adapter.tutti_lightgbm_use(comm._handle), comm._handle)
    functions = (ctypes.cast(adapter.tutti_lightgbm_reduce_scatter, c_void_p),
                 ctypes.cast(adapter.tutti_lightgbm_all_gather, c_void_p))
    library.LGBM_NetworkInitWithFunctions(c_int(comm.size), c_int(comm.rank), *functions)
    try:
        yield {"num_machines": comm.size, "tree_learner": tree_learner}
    finally:
        library.LGBM_NetworkFree()
        adapter.tutti_lightgbm_use(None)
