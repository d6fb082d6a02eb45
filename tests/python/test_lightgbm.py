"""LightGBM on tutti grows the trees that it grows on its own sockets."""

import socket
import unittest

import ranks

LIMIT_S = 250  # LightGBM's sockets look for each other every few seconds

PROGRAM = """
import sys
import lightgbm, numpy as np
import tutti, tutti.lightgbm

ports, rounds, exact = eval(sys.argv[1])
comm = tutti.init()
generator = np.random.default_rng(comm.rank)
rows = generator.normal(size=(600, 8))
labels = rows @ np.arange(8) + generator.normal(size=600)
if exact:
    labels = np.round(labels)  # whole numbers: every order of adding gives the same first gradients
common = {"objective": "regression", "verbose": -1, "num_leaves": 15, "boost_from_average": False, "num_threads": 1}


def trained(parameters):
    data = lightgbm.Dataset(rows, labels, params={**common, **parameters})
    booster = lightgbm.train({**common, **parameters}, data, num_boost_round=rounds)
    return booster.model_to_string().split("\\nparameters:")[0]


results = []
for learner in ("data", "voting"):
    with tutti.lightgbm.network(comm, learner) as parameters:
        mine = trained(parameters)
    machines = ",".join(f"127.0.0.1:{port}" for port in ports)
    theirs = trained({"machines": machines, "local_listen_port": ports[comm.rank], "num_machines": comm.size,
                      "tree_learner": learner})
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
        arguments = repr((free_ports(size), rounds, exact))
        process = ranks.launch(PROGRAM, size, arguments=[arguments])
        try:
            out, error = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 0, error)
        results = [line for line in out.splitlines() if line.startswith("results")]  # LightGBM talks too
        self.assertEqual(results, [f"results {[True] * 4}"] * size, out + error)

    def test_two_ranks_add_in_any_order(self):
        self.check(2, 12, exact=False)

    def test_three_ranks(self):
        self.check(3, 1, exact=True)

    def test_errors_of_the_network_end_training(self):
        program = """
import lightgbm, numpy as np, os
import tutti, tutti.lightgbm
comm = tutti.init()
try:
    with tutti.lightgbm.network(comm) as parameters:
        if comm.rank == 1:
            comm.abort()
        lightgbm.Dataset(np.random.rand(100, 3), np.arange(100), params={"verbose": -1, **parameters}).construct()
except lightgbm.basic.LightGBMError as error:
    print("heard:", error)
"""
        process = ranks.launch(program, 2)
        out, error = process.communicate(timeout=LIMIT_S)
        heard = [line for line in out.splitlines() if line.startswith("heard: tutti: ")]
        self.assertEqual(len(heard), 2, out + error)
