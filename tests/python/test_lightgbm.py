"""LightGBM on tutti grows the trees that it grows on its own sockets."""

import pathlib
import socket
import unittest

import ranks

LIMIT_S = 150  # LightGBM's sockets look for each other every few seconds

BEGIN = f"""
import faulthandler, sys
faulthandler.dump_traceback_later({LIMIT_S - 10})  # who does not end says where it is
import lightgbm, numpy as np
import tutti, tutti.lightgbm
"""

PROGRAM = BEGIN + """
ports, rounds, exact = eval(sys.argv[1])  # ports: those of each learner's sockets, one for each rank
common = {"objective": "regression", "verbose": -1, "num_leaves": 15, "boost_from_average": False, "num_threads": 1,
          "time_out": 1}  # minutes, of the sockets


def trained(rows, labels, parameters):
    data = lightgbm.Dataset(rows, labels, params={**common, **parameters})
    booster = lightgbm.train({**common, **parameters}, data, num_boost_round=rounds)
    return booster.model_to_string().split("\\nparameters:")[0]


with tutti.init(timeout_ms=60000) as comm:
    generator = np.random.default_rng(comm.rank)
    rows = generator.normal(size=(600, 8))
    labels = rows @ np.arange(8) + generator.normal(size=600)
    if exact:
        labels = np.round(labels)  # whole numbers: every order of adding gives the same first gradients
    results = []
    for learner, own_ports in ports.items():
        with tutti.lightgbm.network(comm, learner) as parameters:
            mine = trained(rows, labels, parameters)
        machines = ",".join(f"127.0.0.1:{port}" for port in own_ports)
        theirs = trained(rows, labels, {"machines": machines, "local_listen_port": own_ports[comm.rank],
                                        "num_machines": comm.size, "tree_learner": learner})
        results += [mine == theirs, mine.count("Tree=") == rounds]
    print("results", results)
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Trees(unittest.TestCase):
    def check(self, size, rounds, exact):
        ports = free_ports(2 * size)  # LightGBM's second sockets must not meet the first ones
        of_learners = {"data": ports[:size], "voting": ports[size:]}
        process = ranks.launch(PROGRAM, size, arguments=[repr((of_learners, rounds, exact))])
        status, out, error = ranks.ended(process, LIMIT_S)
        self.assertEqual(status, 0, out + error)
        results = [line for line in out.splitlines() if line.startswith("results")]  # LightGBM talks too
        self.assertEqual(results, [f"results {[True] * 4}"] * size, out + error)

    def test_two_ranks_add_in_any_order(self):
        self.check(2, 12, exact=False)

    def test_three_ranks(self):
        self.check(3, 1, exact=True)

    def test_the_example_gives_all_ranks_the_same_model(self):
        example = pathlib.Path(__file__).parents[2] / "python" / "examples" / "lightgbm_regression.py"
        status, out, error = ranks.ended(ranks.launch(example.read_text(encoding="utf-8"), 2), LIMIT_S)
        self.assertEqual(status, 0, out + error)
        self.assertRegex(out, "2 ranks, mean error 0[.]0.*, equal models: True")

    def test_errors_of_the_network_end_training(self):
        program = BEGIN + """
with tutti.init(timeout_ms=60000) as comm:
    try:
        with tutti.lightgbm.network(comm) as parameters:
            if comm.rank == 1:
                comm.abort()
            lightgbm.Dataset(np.random.rand(100, 3), np.arange(100), params={"verbose": -1, **parameters}).construct()
    except lightgbm.basic.LightGBMError as error:
        print("heard:", error)
"""
        _, out, error = ranks.ended(ranks.launch(program, 2), LIMIT_S)
        heard = [line for line in out.splitlines() if line.startswith("heard: tutti: ")]
        self.assertEqual(len(heard), 2, out + error)
