#!/usr/bin/env python3
"""Writes the fixtures next to it: what SciPy and others make of some series.

    python3 -m venv venv && venv/bin/pip install numpy scipy statsmodels pymannkendall \
        kneed signal-processing-algorithms more-itertools structlog
    venv/bin/python make.py

Where no package has the very same definition (MSER-5, Geyer's cut, Hamed and Rao
with it, the E-statistic over both ends) the formula is written out here in the
plainest way, which is not how the Go code computes it.
"""

import json
import pathlib

import kneed
import numpy as np
import pymannkendall
import scipy
import statsmodels
from scipy import optimize, stats
from signal_processing_algorithms.energy_statistics import energy_statistics
from statsmodels.tsa.stattools import acf

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(20140305)


def write(name, cases):
    def plain(v):
        if isinstance(v, np.ndarray):
            return [plain(e) for e in v]
        if isinstance(v, (list, tuple)):
            return [plain(e) for e in v]
        if isinstance(v, dict):
            return {k: plain(e) for k, e in v.items()}
        return v.item() if isinstance(v, np.generic) else v

    doc = {
        "made_by": f"make.py with numpy {np.__version__}, scipy {scipy.__version__}, "
        f"statsmodels {statsmodels.__version__}",
        "cases": plain(cases),
    }
    lines = json.dumps(doc).replace('{"name"', '\n{"name"').replace("}]}", "}\n]}")
    (HERE / f"{name}.json").write_text(lines + "\n")


def rounded(xs, digits=4):
    """As few digits as the fixture needs; what follows is computed from these."""
    return np.round(np.asarray(xs, float), digits)


def ar1(n, phi, scale=1.0):
    x = np.zeros(n + 200)
    for t in range(1, n + 200):
        x[t] = phi * x[t - 1] + rng.normal(0, scale)
    return x[200:]


# -- series ------------------------------------------------------------------


def geyer(rho):
    """The lags of the initial positive sequence."""
    end = 0
    while end + 1 < len(rho) and rho[end] + rho[end + 1] > 0:
        end += 2
    return end


def mser5(x):
    z = np.asarray(x)[: len(x) // 5 * 5].reshape(-1, 5).mean(axis=1)
    n = len(z)
    s = [((z[d:] - z[d:].mean()) ** 2).sum() / (n - d) ** 2 for d in range(n - n // 4 + 1)]
    d = int(np.argmin(s))
    return 5 * d, d <= n / 2


def series():
    t = np.arange(400)
    for name, x in {
        "noise": rng.normal(100, 5, 200),
        "autoregressive": 50 + ar1(500, 0.8),
        "alternating": 50 + ar1(101, -0.7),
        "warm-up": 1000 - 400 * np.exp(-t / 20) + rng.normal(0, 15, 400),
        "warm-up, 403 values": np.concatenate([1000 - 400 * np.exp(-t / 40) + rng.normal(0, 15, 400), [1, 2, 3]]),
        "steady": 1000 + rng.normal(0, 15, 300),
        "still climbing": 1000 + 2.0 * t + rng.normal(0, 15, 400),
        "late step": np.where(t < 300, 500, 900) + rng.normal(0, 15, 400),
        "fewest": rng.normal(3, 1, 100),
    }.items():
        x = rounded(x)
        rho = acf(x, nlags=len(x) - 1, adjusted=False, fft=False)
        end = geyer(rho)
        time = max(1.0, 1 + 2 * rho[1:end].sum())
        truncation, steady = mser5(x)
        yield {
            "name": name,
            "values": x,
            "acf": rho[:12],
            "lags": end - 1,
            "time": time,
            "truncation": truncation,
            "steady": steady,
        }


# -- trend -------------------------------------------------------------------


def hamed_rao(x):
    n = len(x)
    slope, intercept, _, _ = stats.theilslopes(x, np.arange(n))
    rho = acf(stats.rankdata(x - intercept - slope * np.arange(n)), nlags=n - 1, adjusted=False, fft=False)
    k = np.arange(1, geyer(rho))
    return max(1.0, 1 + 2 / (n * (n - 1) * (n - 2)) * ((n - k) * (n - k - 1) * (n - k - 2) * rho[k]).sum())


def trend():
    for name, y in {
        "noise, 8": rng.normal(0, 1, 8),
        "rising, 12": np.arange(12) * 0.4 + rng.normal(0, 1, 12),
        "falling, 31": np.arange(31) * -0.1 + rng.normal(0, 1, 31),
        "fifty": np.arange(50) * 0.02 + rng.normal(0, 1, 50),
        "fifty-one": np.arange(51) * 0.02 + rng.normal(0, 1, 51),
        "ties": np.floor(np.arange(40) * 0.05 + rng.normal(0, 1, 40)),
        "wild values": np.where(np.arange(60) % 11 == 0, 500, np.arange(60) * 0.5) + rng.normal(0, 1, 60),
        "memory": 200 + np.arange(300) * 0.05 + ar1(300, 0.6),
        "memory, no growth": 200 + ar1(200, 0.8),
        "all but monotone": np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 9.0]),
    }.items():
        y = rounded(y)
        n = len(y)
        x = rounded(np.cumsum(rng.uniform(0.5, 1.5, n)))
        slope, intercept, low, high = stats.theilslopes(y, x, alpha=0.95)
        ties = len(np.unique(y)) < n
        mk = pymannkendall.original_test(y)
        exact = n <= 50 and not ties
        p = stats.kendalltau(np.arange(n), y, method="exact").pvalue if exact else mk.p
        inflation = hamed_rao(y)
        z = np.sign(mk.s) * (abs(mk.s) - 1) / np.sqrt(mk.var_s * inflation) if mk.s else 0.0
        # The package sums only what is significant, so its factor differs, but not
        # what it makes of one.
        theirs = pymannkendall.hamed_rao_modification_test(y, lag=3)
        yield {
            "name": name,
            "x": x,
            "y": y,
            "slope": slope,
            "intercept": intercept,
            "low": low,
            "high": high,
            "s": int(mk.s),
            "tau": mk.Tau,
            "p": p,
            "exact": exact,
            "inflation": inflation,
            "p_inflated": 2 * stats.norm.sf(abs(z)),
            "their_inflation": theirs.var_s / mk.var_s,
            "their_p": theirs.p,
        }


# -- scalability -------------------------------------------------------------


def law(n, lam, sigma, kappa):
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


# -- change points -------------------------------------------------------------


def best_split(x, least):
    """Straight from the definition."""
    d = np.abs(np.subtract.outer(x, x))
    best = (-np.inf, 0)
    for tau in range(least, len(x) - least + 1):
        for kappa in range(tau + least, len(x) + 1):
            m, n = tau, kappa - tau
            e = (
                2 * d[:tau, tau:kappa].mean()
                - d[:tau, :tau].sum() / (m * (m - 1))
                - d[tau:kappa, tau:kappa].sum() / (n * (n - 1))
            )
            best = max(best, (m * n / (m + n) * e, tau), key=lambda b: b[0])
    return best


def changes():
    for name, x in {
        "step": np.repeat([100, 110], [25, 20]) + rng.normal(0, 1.5, 45),
        "two steps": np.repeat([100, 112, 96], [20, 15, 25]) + rng.normal(0, 1.5, 60),
        "bump": np.repeat([100, 130, 100], [20, 12, 20]) + rng.normal(0, 1.5, 52),
        "three levels": np.repeat([5, 6, 8, 4], [15, 15, 15, 15]) + rng.normal(0, 0.15, 60),
        "noise": rng.normal(10, 2, 40),
        "spread": rng.normal(0, 1, 80) * np.repeat([1, 12], 40),
    }.items():
        x = rounded(x)
        q, tau = best_split(x, 4)
        np.random.seed(1)
        # Their statistic divides by n^2 and takes each segment to its end.
        theirs = energy_statistics.e_divisive(list(x), pvalue=0.01, permutations=999)
        yield {"name": name, "values": x, "statistic": q, "split": tau, "theirs": sorted(theirs)}


# -- knee ----------------------------------------------------------------------


def knees():
    u = np.arange(1, 20) / 20
    for name, x, y, curve in [
        ("queue", 1000 * u, 1 / (1 - u), "convex"),
        ("queue, uneven levels", 1000 * (1 - (1 - u) ** 2), 1 / (1 - u) ** 2, "convex"),
        ("queue with noise", 1000 * u, 1 / (1 - u) * rng.normal(1, 0.03, 19), "convex"),
        ("saturating", u * 64, 1 - np.exp(-5 * u), "concave"),
        ("saturating with noise", u * 64, (1 - np.exp(-5 * u)) * rng.normal(1, 0.02, 19), "concave"),
        ("scalability", np.array([1, 2, 4, 8, 16, 32, 64.0]), law(np.array([1, 2, 4, 8, 16, 32, 64.0]), 10, 0.05, 0.0002), "concave"),
        ("nearly straight", u, u + 0.01 * np.sin(3 * u), "concave"),
    ]:
        x, y = rounded(x), rounded(y)
        for sensitivity in (1.0, 3.0):
            k = kneed.KneeLocator(x, y, S=sensitivity, curve=curve, direction="increasing").knee
            yield {
                "name": f"{name}, sensitivity {sensitivity:g}", "x": x, "y": y, "curve": curve,
                "sensitivity": sensitivity, "knee": -1 if k is None else int(np.flatnonzero(x == k)[0]),
            }


for f in (series, trend, changes, knees):
    write(f.__name__, list(f()))
