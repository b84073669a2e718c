"""Identification of PaLiDA as in AH09, section 6, on the virtual robot: Table II and Figs.

4 and 5, and beyond.

    python examples/palida_identification.py [--trials 100] [--seeds 4] [--plot palida.svg] [--json]

1. The excitation runs under PID (10 Hz) with the a-priori model as feed-forward; with what is
identified from it, it
   runs again, twice. In the last run the platform follows its five harmonics within the position
   noise: AH09's premise.
2. Experiment design (Fig. 5): 100 noisy repetitions of the D-optimal and of the condition-number
trajectory.
3. Gauss-Markov with the full covariance of the legs' forces beside diagonal weights, on the same
repetitions.
4. 3,000 trials in which only the noise of the forces differs: variance beside the Cramer-Rao bound,
coverage.
5. Data processing (Fig. 4): models from rough, time-filtered and frequency-filtered data predict a
benchmark circle.
6. Maximum likelihood (Table II): the cut-off by (24) as printed and with Akaike's criterion; the
trajectory free.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from line_plot import save
from palida_experiment import (
    A_PRIORI,
    GAUSS_MARKOV,
    HARMONICS,
    LIKELIHOOD,
    NAMES,
    PAPER_NAMES,
    PERIODS,
    excitation,
    trial,
)
from palida_studies import (
    METHODS,
    Likelihoods,
    Prediction,
    Repetitions,
    Study,
    bins_kept,
    design_ratio,
    experiments,
    geometric,
    likelihoods,
    micro_motion,
    noise_only,
    prediction,
    repetitions,
    true_problem,
)
from scipy import stats

from gough.core.arrays import FloatArray
from gough.fitting.likelihood import CutoffResult
from gough.identification import prepare


def table_two(study: Study, found: Likelihoods) -> tuple[list[str], dict[str, Any]]:
    """Return Table II of AH09 beside ours."""
    lines = [
        f"{'':8s}{'AH09':>28s}   | {'virtual robot':>13s}",
        f"{'':8s}{'a priori':>9s}{'GM':>9s}{'ML':>9s}    | "
        f"{'truth':>8s}{'GM':>19s}{'ML over f_c':>19s}"
        f"{'full ML':>19s}  unit",
    ]
    estimates = (found.markov, found.cutoff.estimate, found.full.estimate)
    rows: dict[str, Any] = {}
    for k, (paper, name) in enumerate(zip(PAPER_NAMES, NAMES)):
        i = study.base.names.index(name)
        known = f"{A_PRIORI[k]:9.4f}" if k < 10 else f"{'-':>9s}"
        ours = "".join(f"{e.values[i]:11.4f}+-{e.std[i]:6.4f}" for e in estimates)
        lines.append(
            f"{paper:8s}{known}{GAUSS_MARKOV[k]:9.4f}{LIKELIHOOD[k]:9.4f}    | "
            f"{study.true[i]:8.4f}{ours}  "
            f"{study.base.units[i]}"
        )
        rows[paper] = {
            "name": name,
            "true": float(study.true[i]),
            **{
                key: {"value": float(e.values[i]), "std": float(e.std[i])}
                for key, e in zip(("gm", "ml", "full_ml"), estimates)
            },
        }
    wanted = HARMONICS * study.trajectories["d"].frequency
    lines.append(
        f"{'f_c [Hz]':8s}{'':9s}{1.6182:9.4f}{1.6195:9.4f}    | {wanted:8.4f}{'':19s}"
        f"{found.cutoff.cutoff:19.4f}"
    )
    return lines, rows


def report(trials: int, seeds: int, plot: str | None) -> tuple[str, dict[str, Any]]:
    """Run everything; return the tables as text and as numbers."""
    study = experiments()
    lines: list[str] = []
    numbers: dict[str, Any] = {}

    ours, rival = (
        repetitions(study, study.main, trials),
        repetitions(study, study.rival, trials, seed=2000),
    )
    ratio, efficiency = ours.std / rival.std, ours.std / ours.diagonal.std(axis=0, ddof=1)
    numbers["design"] = {
        "geometric_mean": geometric(ratio),
        "share_smaller": float((ratio < 1).mean()),
    }
    lines += [
        f"Experiment design, {trials} trials of {PERIODS} periods (AH09 Fig. 5)",
        "  standard deviations of D-optimal over condition number: geometric mean "
        f"{geometric(ratio):.3f}, smaller for {100 * (ratio < 1).mean():.0f} % of 24 parameters",
        "  "
        + " ".join(
            f"{n} {ratio[study.base.names.index(m)]:.2f}" for n, m in zip(PAPER_NAMES, NAMES)
        ),
    ]
    for seed in range(1, seeds):
        other = design_ratio(
            study, excitation(study.model, "d", seed), excitation(study.model, "cond", seed)
        )
        numbers["design"][f"seed {seed}"] = {
            "geometric_mean": geometric(other),
            "share_smaller": float((other < 1).mean()),
        }
        lines.append(
            f"  from another start (seed {seed}), by their bounds: {geometric(other):.3f}, "
            f"{100 * (other < 1).mean():.0f} %"
        )
    numbers["covariance"] = {
        "geometric_mean": geometric(efficiency),
        "share_smaller": float((efficiency < 1).mean()),
    }
    numbers["coverage"] = {"d": float(ours.covered.mean()), "cond": float(rival.covered.mean())}
    lines += [
        "",
        "Full covariance of the legs (correlation 0.3) beside diagonal weights, the same trials",
        f"  standard deviations of Gauss-Markov over weighted least squares: geometric mean "
        f"{geometric(efficiency):.3f}, smaller for {100 * (efficiency < 1).mean():.0f} %",
        f"  95 % intervals hold the truth in {100 * ours.covered.mean():.1f} % (D) and "
        f"{100 * rival.covered.mean():.1f} % (condition number)",
    ]

    chosen = prepare(study.model, [trial(study.main, 1)], study.base).processing
    alone = noise_only(study, true_problem(study, chosen.window or 0.0))
    low, high = alone.variance_ratio.min(), alone.variance_ratio.max()
    numbers["noise_only"] = {
        "trials": len(alone.values),
        "variance_over_bound": float(alone.variance_ratio.mean()),
        "coverage_white": float(alone.white.mean()),
        "coverage_period": float(alone.period.mean()),
    }
    lines += [
        "",
        f"Only the noise of the forces differs, {len(alone.values)} trials",
        f"  variance over Cramer-Rao bound: pooled {alone.variance_ratio.mean():.3f}, {low:.3f} to "
        f"{high:.3f}",
        f"  coverage of 95 % intervals: {100 * alone.white.mean():.1f} % (white noise), "
        f"{100 * alone.period.mean():.1f} % (scatter between {PERIODS} periods)",
    ]

    guess = prediction(study)
    numbers["prediction"] = {
        name: {"rms": guess.error[name], "model": guess.model_error[name]} for name in METHODS
    }
    lines += [
        "",
        "Prediction of the benchmark circle, rms over six legs [N] (AH09 Fig. 4)",
        f"  {'identified from':20s}{'measured - predicted':>22s}{'true - predicted':>18s}",
    ]
    lines += [
        f"  {name:20s}{guess.error[name]:22.3f}{guess.model_error[name]:18.3f}" for name in METHODS
    ]

    found = likelihoods(study)
    table, rows = table_two(study, found)
    numbers["table_two"], numbers["cutoff"] = rows, found.cutoff.cutoff
    lines += ["", f"Table II, one trial of {PERIODS} periods", *table]
    lines += [
        "  Over one period 1.6182 and 1.6195 Hz keep the same five harmonics: (24) is the same for "
        "both.",
        "",
        "Harmonics kept by likelihood, five trials each",
        f"  {'feed-forward':24s}{'motion beyond n_h [um]':>24s}{'with AIC':>14s}   (24) as printed",
    ]
    numbers["harmonics"] = []
    for name, simulation in zip(
        ("a-priori model", "identified once", "identified twice"), study.rounds
    ):
        highest = 40
        kept = bins_kept(study, simulation, range(5), highest=highest)
        shown = [
            ", ".join(str(k) if k < highest else f"{highest} or more" for k in sorted(set(chosen)))
            for chosen in zip(*kept)
        ]
        size = micro_motion(study, simulation)
        numbers["harmonics"].append(
            {
                "feedforward": name,
                "micro_motion": size,
                "aic": [k[0] for k in kept],
                "printed": [k[1] for k in kept],
            }
        )
        lines.append(f"  {name:24s}{size * 1e6:24.2f}{shown[0]:>14s}   {shown[1]}")
    lines.append(
        "  A harmonic beyond n_h is kept once its motion exceeds 2 sigma / sqrt(samples) = "
        f"{2 * 30 / np.sqrt(PERIODS * len(study.main.time)):.2f} um rms a leg."
    )
    if plot:
        lines.append(f"plot: {save(plot, panels(study, ours, rival, guess, found.cutoff))}")
    return "\n".join(lines), numbers


def panels(
    study: Study, ours: Repetitions, rival: Repetitions, guess: Prediction, cutoff: CutoffResult
) -> list[tuple[str, str, str, dict[str, tuple[FloatArray, FloatArray]]]]:
    """Return the panels of a plot: Fig. 4, Fig.

    5 for three parameters, and the criteria over the cut-off.
    """
    shown = {name: (guess.time, curve) for name, curve in guess.curves.items()}
    rough = {"rough data": shown.pop("rough data")}
    result = [
        ("Fig. 4: prediction error of leg 1", "time [s]", "force [N]", curves)
        for curves in (rough, shown)
    ]
    for paper, name in list(zip(PAPER_NAMES, NAMES))[1:10:3]:
        i = study.base.names.index(name)
        across = np.linspace(-3.5, 3.5, 201) * rival.std[i] + study.true[i]
        result.append(
            (
                f"Fig. 5: {paper}",
                f"{paper} [{study.base.units[i]}]",
                "density",
                {
                    "D-optimal": (
                        across,
                        stats.norm.pdf(across, ours.values[:, i].mean(), ours.std[i]),
                    ),
                    "condition number": (
                        across,
                        stats.norm.pdf(across, rival.values[:, i].mean(), rival.std[i]),
                    ),
                },
            )
        )
    harmonics = np.arange(HARMONICS, len(cutoff.cutoffs) + 1.0)
    result.append(
        (
            "Criterion over the harmonics kept",
            "harmonics",
            "criterion - value at 5",
            {
                name: (harmonics, values[HARMONICS - 1 :] - values[HARMONICS - 1])
                for name, values in (("with AIC", cutoff.aic), ("(24) as printed", cutoff.printed))
            },
        )
    )
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--trials", type=int, default=100, help="noisy repetitions of each trajectory"
    )
    parser.add_argument(
        "--seeds", type=int, default=4, help="starts from which both trajectories are designed"
    )
    parser.add_argument("--plot", metavar="FILE", help="write the figures as SVG")
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    text, numbers = report(chosen.trials, chosen.seeds, chosen.plot)
    print(json.dumps(numbers, indent=1) if chosen.json else text)


if __name__ == "__main__":
    main()
