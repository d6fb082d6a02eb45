"""A regression that LightGBM learns on several ranks: tutti run -n 2 -- python lightgbm_regression.py"""

import lightgbm
import numpy as np

import tutti
import tutti.lightgbm


def rows_of(rank):
    """What is to be learned; each rank has other rows."""
    generator = np.random.default_rng(rank)
    rows = generator.uniform(-1, 1, (2000, 4))
    return rows, np.sin(3 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


with tutti.init() as comm:
    with tutti.lightgbm.network(comm) as parameters:
        parameters |= {"objective": "regression", "verbose": -1, "num_threads": 1}
        data = lightgbm.Dataset(*rows_of(comm.rank), params=parameters)
        booster = lightgbm.train(parameters, data, num_boost_round=60)

    rows, truth = rows_of(1000)
    error = np.abs(booster.predict(rows) - truth).mean()
    models = comm.all_gather(np.frombuffer(booster.model_to_string().split("\nparameters:")[0].encode(), np.uint8))
    if comm.rank == 0:
        print(f"{comm.size} ranks, mean error {error:.3f}, equal models: {bool((models == models[0]).all())}")
