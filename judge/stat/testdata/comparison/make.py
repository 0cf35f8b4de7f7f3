"""Writes the fixtures of the comparison functions, next to this file.

    pip install scipy==1.17.1 numpy==2.4.6
    python make.py

What SciPy has is computed with SciPy. What it has not is computed from the
definition, in another way than the package does: Holm by closed testing, the
Hodges-Lehmann interval by inverting SciPy's signed-rank test, the number of
further rounds by counting up, the level of the three looks by integrating the
normal density.
"""

import itertools
import json
import math
import pathlib

import numpy as np
from scipy import integrate, stats

here = pathlib.Path(__file__).parent


def write(name, cases):
    def plain(x):
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, (list, tuple, np.ndarray)):
            return [plain(v) for v in x]
        if isinstance(x, (np.floating, float)):
            # JSON has no infinity.
            return float(x) if math.isfinite(x) else ("inf" if x > 0 else "-inf")
        if isinstance(x, (np.integer, int)):
            return int(x)
        return x

    lines = ",\n".join(json.dumps(plain(c)) for c in cases)
    (here / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def rounds(rng, n, effect, spread):
    """Throughputs of two variants whose rounds drift together."""
    drift = rng.normal(0, 0.1, n)
    a = np.round(5000 * np.exp(drift + rng.normal(0, spread, n)), 2)
    b = np.round(5000 * effect * np.exp(drift + rng.normal(0, spread, n)), 2)
    return a, b


def differences(rng):
    """Samples for the tests without a distribution, some with ties and zeros."""
    yield np.round(rng.normal(0.3, 1, 6), 6)
    yield np.round(rng.normal(0.5, 1, 8), 6)
    yield np.round(rng.standard_t(2, 12) + 0.4, 6)
    yield np.array([1.0, 1.0, -1.0, 2.0, 2.0, -3.0, 4.0, 1.0])
    yield np.array([0.0, 1.0, -2.0, 0.0, 3.0, 3.0, 5.0, 4.0, -0.5])
    yield np.array([0.0, 0.0, 1.0, 2.0])
    yield np.array([0.1] * 8)
    yield np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    yield np.array([3.0, -3.0])


def ratio(rng):
    for n, effect, spread in [(2, 1.05, 0.01), (3, 0.9, 0.02), (8, 1.0, 0.01), (8, 1.02, 0.005),
                              (12, 0.95, 0.03), (40, 1.001, 0.01), (200, 1.3, 0.4)]:
        a, b = rounds(rng, n, effect, spread)
        la, lb = np.log(a), np.log(b)
        for confidence in (0.95, 0.9, 0.986, 0.9995):
            t = stats.ttest_rel(lb, la)
            low, high = t.confidence_interval(confidence)
            s = np.std(lb - la, ddof=1)
            quantiles = stats.t.ppf((1 + confidence) / 2, n - 1) + stats.t.ppf(0.8, n - 1)
            yield {"a": a, "b": b, "confidence": confidence,
                   "estimate": stats.gmean(b / a), "low": math.exp(low), "high": math.exp(high),
                   "t": t.statistic, "p": t.pvalue, "s": s,
                   "detectable": math.expm1(quantiles * s / math.sqrt(n))}


def power():
    """What the t test finds of an effect of (t.975 + t.80)·σ/√n, by the noncentral t."""
    for n in (3, 4, 5, 6, 8, 12, 24, 100):
        critical = stats.t.ppf(0.975, n - 1)
        effect = critical + stats.t.ppf(0.8, n - 1)  # in standard errors
        found = stats.nct.sf(critical, n - 1, effect) + stats.nct.cdf(-critical, n - 1, effect)
        yield {"n": n, "effect": effect / math.sqrt(n), "power": found}


def further():
    for mean, s, n, margin in [(0.0, 0.01, 8, 0.02), (0.001, 0.01, 8, 0.02), (0.01, 0.02, 8, 0.02),
                               (0.03, 0.02, 8, 0.02), (-0.004, 0.03, 12, 0.01), (0.0, 0.002, 8, 0.02),
                               (0.0, 0.05, 2, 0.02), (-0.0095, 0.01, 3, 0.02)]:
        more = 0
        while True:
            total = n + more
            half = stats.t.ppf(0.975, total - 1) * s / math.sqrt(total)
            if half < abs(mean) or half <= math.log1p(margin) / 2:
                break
            more += 1
        yield {"mean": mean, "s": s, "n": n, "margin": margin, "more": more}


def sign_flip(rng):
    for d in [*differences(rng), np.round(rng.normal(0.25, 1, 15), 6)]:
        exact = stats.permutation_test((d,), np.sum, permutation_type="samples", n_resamples=np.inf)
        yield {"d": d, "p": exact.pvalue}


def signed_rank(rng):
    every = stats.PermutationMethod(n_resamples=np.inf)
    for d in [*differences(rng), np.round(rng.normal(0.2, 1, 30), 6)]:
        r = stats.wilcoxon(d, zero_method="pratt", method="exact" if len(d) > 20 else every)
        # SciPy gives the smaller of the two sums.
        ranks = stats.rankdata(np.abs(d))
        yield {"d": d, "w": ranks[d > 0].sum(), "p": min(1, r.pvalue)}


def hodges_lehmann(rng):
    """The interval holds the centres that the signed-rank test does not reject."""
    for n, confidence in [(4, 0.95), (5, 0.95), (6, 0.95), (8, 0.95), (8, 0.9), (9, 0.99), (13, 0.95), (20, 0.9)]:
        d = np.round(rng.standard_t(3, n) + 0.3, 6)
        walsh = np.sort([(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)])
        between = (walsh[1:] + walsh[:-1]) / 2
        kept = [stats.wilcoxon(d - c, method="exact").pvalue > 1 - confidence + 1e-12 for c in between]
        outside = stats.wilcoxon(d - (walsh[0] - 1), method="exact").pvalue > 1 - confidence + 1e-12
        low = -math.inf if outside else walsh[kept.index(True)]
        high = math.inf if outside else walsh[len(kept) - kept[::-1].index(True)]
        # Every arrangement of signs is as likely; counted one by one.
        count = len(walsh) if outside else int(np.sum(walsh < low)) + 1
        sums = [sum(i + 1 for i in range(n) if mask >> i & 1) for mask in range(2**n)] if n <= 13 else []
        coverage = 1 if outside else (1 - 2 * sum(w < count for w in sums) / 2**n if sums else None)
        yield {"d": d, "confidence": confidence, "estimate": np.median(walsh), "low": low, "high": high,
               "coverage": coverage}


def equivalence(rng):
    for n, effect, spread, margin in [(8, 1.0, 0.005, 0.02), (8, 1.015, 0.005, 0.02), (8, 0.97, 0.01, 0.02),
                                      (12, 1.0, 0.03, 0.02), (30, 1.0, 0.01, 0.01), (2, 1.0, 0.001, 0.05)]:
        a, b = rounds(rng, n, effect, spread)
        d = np.log(b) - np.log(a)
        limit = math.log1p(margin)
        lower = stats.ttest_1samp(d, -limit, alternative="greater").pvalue
        upper = stats.ttest_1samp(d, limit, alternative="less").pvalue
        low, high = stats.ttest_1samp(d, 0).confidence_interval(0.9)
        yield {"d": d, "margin": margin, "p": max(lower, upper), "low": math.exp(low), "high": math.exp(high)}


def multiple(rng):
    for m in (1, 2, 5, 9):
        for p in (np.round(rng.uniform(0, 1, m), 5), np.round(rng.beta(0.3, 4, m), 5)):
            # Closed testing: a hypothesis falls when every intersection it is part of does.
            holm = [max(min(1.0, len(s) * min(p[list(s)]))
                        for size in range(1, m + 1) for s in itertools.combinations(range(m), size) if i in s)
                    for i in range(m)]
            yield {"p": p, "holm": holm}
    p = [0.01, 0.01, 0.03, 1, 0, 0.03]
    holm = [max(min(1.0, len(s) * min(p[j] for j in s))
                for size in range(1, 7) for s in itertools.combinations(range(6), size) if i in s) for i in range(6)]
    yield {"p": p, "holm": holm}


def looks():
    """The level of three looks after equal parts at a sum of normal values, and of two."""
    alphas = (0.0005, 0.014, 0.045)
    z = [stats.norm.isf(a / 2) for a in alphas]
    # Steps of variance 1; the boundary of the sum after k of them is z·√k.
    b = [z[k] * math.sqrt(k + 1) for k in range(3)]
    phi = stats.norm.pdf

    def second(s):  # density of the sum after two steps, not stopped at the first
        return integrate.quad(lambda x: phi(x) * phi(s - x), -b[0], b[0])[0]

    def third(s):
        return stats.norm.cdf(b[2] - s) - stats.norm.cdf(-b[2] - s)

    two = 1 - integrate.quad(second, -b[1], b[1])[0]
    three = 1 - integrate.quad(lambda s: second(s) * third(s), -b[1], b[1])[0]
    yield {"alphas": alphas, "after": [alphas[0], two, three]}


def unpaired(rng):
    for m, n, effect, s, t in [(2, 2, 1.1, 0.02, 0.01), (2, 9, 1.0, 0.05, 0.01), (8, 8, 1.0, 0.01, 0.01),
                               (8, 12, 0.97, 0.01, 0.04), (40, 8, 1.02, 0.3, 0.02), (3, 3, 2.0, 1e-6, 0.1)]:
        a = np.round(5000 * np.exp(rng.normal(0, s, m)), 3)
        b = np.round(5000 * effect * np.exp(rng.normal(0, t, n)), 3)
        for confidence in (0.95, 0.9):
            r = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
            low, high = r.confidence_interval(confidence)
            error = math.sqrt(stats.sem(np.log(a)) ** 2 + stats.sem(np.log(b)) ** 2)
            quantiles = stats.t.ppf((1 + confidence) / 2, r.df) + stats.t.ppf(0.8, r.df)
            yield {"a": a, "b": b, "confidence": confidence, "estimate": stats.gmean(b) / stats.gmean(a),
                   "low": math.exp(low), "high": math.exp(high), "t": r.statistic, "p": r.pvalue, "df": r.df,
                   "error": error, "detectable": math.expm1(quantiles * error)}


rng = np.random.default_rng(1)
write("ratio", ratio(rng))
write("power", power())
write("further", further())
write("signflip", sign_flip(rng))
write("signedrank", signed_rank(rng))
write("hodgeslehmann", hodges_lehmann(rng))
write("equivalence", equivalence(rng))
write("multiple", multiple(rng))
write("looks", looks())
write("unpaired", unpaired(rng))
