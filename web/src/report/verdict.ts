import type { Comparison } from "../document";
import { change, estimate, factor, factors, isFactor, margin, probability, rates, spread, unitOf } from "../format";
import { figureOf, planned, pOf, type Context } from "./context";

export interface Sentence {
  text: string;
  verdict: string; // better, worse … or empty
  behind: string; // interval, p and rounds
}

/** What came out, in sentences: the primary metric's first. */
export function sentences(c: Context): Sentence[] {
  const { run } = c.doc;
  let primary = (run.comparisons ?? []).filter((x) => x.primary && !x.role);
  if (run.plan.ladder && primary.length > 1) primary = primary.slice(-1); // the ladder shows the others
  if (primary.length > 0) return primary.map((x) => sentence(c, x));
  const capacities = (run.capacities ?? []).filter((x) => x.rate_per_second.estimate !== undefined);
  if (capacities.length > 0) {
    return capacities.map((x) => ({ text: c.t("verdict.capacity", { variant: x.variant, rate: estimate(rates, x.rate_per_second) }), verdict: "", behind: c.t.plural("n.rounds", x.searches?.length ?? 0) }));
  }
  const claims = (run.claims ?? []).filter((x) => x.outcome !== "not testable here");
  if (claims.length > 0) {
    return [{ text: c.t("verdict.claims", { holds: claims.filter((x) => x.outcome === "holds").length, n: claims.length }), verdict: "", behind: "" }];
  }
  const metric = run.plan.metric || "throughput";
  const variants = planned(c);
  if (variants.length > 4) return [{ text: c.t("verdict.measured", { n: variants.length }), verdict: "", behind: c.t.plural("n.rounds", run.rounds) }];
  return variants.flatMap((v) => {
    const e = figureOf(c, v.name, metric);
    if (e?.estimate === undefined) return [];
    const text = c.t("verdict.alone", { variant: v.name, metric: c.t.metric(metric), figure: estimate(unitOf(metric), e) });
    return [{ text, verdict: "", behind: c.t.plural("n.rounds", run.rounds) }];
  });
}

/** A comparison in words. */
export function sentence(c: Context, x: Comparison): Sentence {
  const { t } = c;
  const r = x.ratio;
  const names = { variant: x.variant, base: x.base, metric: spaced(c, t.metric(x.metric)) };
  const behind: string[] = [];
  if (r.low !== undefined || r.high !== undefined) {
    behind.push(`${t("interval", { confidence: Number((100 * (r.confidence ?? 0.95)).toPrecision(3)) })} ${isFactor(r) ? factors(r) : spread(r).slice(1, -1) + "%"}`);
  }
  const p = pOf(x);
  if (p !== undefined) behind.push(`p ${probability(p).replace("<", "< ")}`);
  behind.push(t.plural("n.rounds", x.rounds));
  const verdict = x.verdict || "inconclusive";
  let text: string;
  switch (verdict) {
    case "better":
    case "worse": {
      const e = r.estimate ?? 1;
      const size = isFactor(r) ? factor(e) : change({ estimate: e, ...(r.low === undefined ? {} : { low: r.low }), ...(r.high === undefined ? {} : { high: r.high }) }).split(" ")[0]!.slice(1);
      text = t(isFactor(r) ? "verdict.factor" : e > 1 ? "verdict.higher" : "verdict.lower", { ...names, change: size });
      break;
    }
    case "equivalent":
      text = t("verdict.equivalent", { ...names, margin: margin(c.doc.run.plan.margin ?? 0) });
      break;
    case "invalid":
      text = t("verdict.invalid", names);
      break;
    default:
      text = t("verdict.inconclusive", names);
      if (x.further_rounds !== undefined) behind.push(t.plural("verdict.further", x.further_rounds));
  }
  return { text, verdict, behind: behind.join(c.t.language === "zh" ? "，" : ", ") };
}

/** In Chinese, a name in Latin letters stands apart from the words around it. */
function spaced(c: Context, name: string): string {
  return c.t.language === "zh" ? name.replace(/^(?=[\x21-\x7e])/, " ").replace(/(?<=[\x21-\x7e])$/, " ") : name;
}
