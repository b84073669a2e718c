"""Monte Carlo on any number of workers: the same table, failures named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import run
from gough.app.studies.monte_carlo import MonteCarloRun, outcome_of
from gough.app.studies.study_file import run_step
from gough.core.errors import NotConverged
from gough.core.executors import Cluster, InProcess, Processes, WorkSettings


def test_settings_choose_the_executor() -> None:
    assert WorkSettings().executor == WorkSettings(workers=1).executor == InProcess()
    assert not WorkSettings().parallel
    assert WorkSettings(workers=3).executor == Processes(workers=3)
    assert WorkSettings(cluster="tcp://a:1").executor == Cluster(address="tcp://a:1")
    assert WorkSettings(cluster="local", workers=3).executor == Cluster(address=None, workers=3)


@pytest.mark.slow
def test_the_table_is_the_same_with_any_number_of_workers_and_that_of_single_trials() -> None:
    alone, shared = (
        run_step(
            "trials",
            {
                "robots": ["five_bar"],
                "seeds": 2,
                "periods": 3,
                "noises": (1.0, 2.0),
                "workers": workers,
            },
        ).facts["trials"]
        for workers in (1, 2)
    )
    assert alone == shared
    assert [[row[key] for key in ("robot", "design", "noise")] for row in alone] == [
        ["five_bar", 0, 1.0],
        ["five_bar", 0, 2.0],
    ]
    single = np.array(
        [
            outcome_of(
                MonteCarloRun(
                    robot="five_bar",
                    tied=False,
                    design=0,
                    noise=2.0,
                    periods=3,
                    estimator="gm",
                    seed=seed,
                )
            )
            for seed in range(2)
        ]
    )
    assert alone[1]["hold"] == pytest.approx(single[:, 1].mean())
    fractions = single[:, 1].mean(axis=1)  # of two runs: the error of their mean is half of
    assert alone[1]["hold_error"] == pytest.approx(abs(fractions[1] - fractions[0]) / 2)
    assert alone[1]["rms_z"] == pytest.approx(np.sqrt((single[:, 0] ** 2).mean()))


@pytest.mark.slow
def test_trials_that_cannot_run_are_named() -> None:
    with pytest.raises(
        NotConverged, match=r"none of 2 trials came to an end; the first: .*drive gains"
    ):
        run_step("trials", {"robots": ["five_bar"], "seeds": 2, "periods": 3, "estimator": "tls"})


@pytest.mark.slow
def test_a_study_has_trials(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'format = 1\n[trials]\nrobots = ["five_bar"]\nseeds = 2\nperiods = 3\n'
        'output = "table.csv"\n',
        encoding="utf-8",
    )
    done = run("gough run study.toml", tmp_path)
    assert done.code == 0, done.err
    assert "2 trials: " in done.out
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").count("five_bar") == 1
