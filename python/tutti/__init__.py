"""tutti for numpy: ranks combine and exchange arrays.

    import numpy as np
    import tutti

    comm = tutti.init()                     # under tutti run, mpirun, srun or torchrun
    array = np.full(4, comm.rank + 1.0)
    comm.all_reduce(array)                  # in place
    request = comm.start.all_gather(array)  # does not block
    rows = request.wait()

Arrays of numpy, tensors with DLPack (torch, JAX) and what has the buffer protocol; contiguous, in the host's memory.
"""

from ._buffers import BufferLike
from ._call import Message
from ._calls import ANY_SOURCE, ANY_TAG
from ._communicator import Communicator, init, unique_id
from ._library import Error, Status
from ._requests import Prepared, Request, group, wait_all, wait_any
from ._types import Op

SUM, PROD, MAX, MIN, AVG, BAND, BOR, BXOR = Op

__version__ = "0.1.0"
__all__ = [
    "ANY_SOURCE", "ANY_TAG", "AVG", "BAND", "BOR", "BXOR", "BufferLike", "Communicator", "Error", "MAX", "MIN",
    "Message", "Op", "PROD", "Prepared", "Request", "SUM", "Status", "group", "init", "unique_id",
    "wait_all", "wait_any",
]
