import type { Comparison, Estimate, PlanVariant, Report, Run, Validity, Variant } from "../document";
import { stated, unitOf, unknown, write } from "../format";
import type { Texts, Work } from "../i18n";
import type { Settings } from "../settings";
import type { View } from "../charts/flametree";

/** What a reader has chosen. It stays when the page is drawn again. */
export interface Choices extends Settings {
  clock?: string;
  round?: number;
  heat?: string;
  hidden: Set<string>; // variants
  flame?: string; // kind
  pair?: string;
  view?: View;
  search: string;
}

/** What every section is made from. */
export interface Context {
  doc: Report;
  t: Texts;
  chosen: Choices;
  redraws: (() => void)[]; // of what is painted in colours that a theme changes
  ends: (() => void)[]; // what must be ended when the page is drawn again
}

export function planned(c: Context): PlanVariant[] {
  return c.doc.run.plan.variants ?? [];
}

/** The place of a variant in the plan, which is its colour too. */
export function orderOf(c: Context, variant: string): number {
  return Math.max(0, planned(c).findIndex((v) => v.name === variant));
}

export function isProgram(c: Context): boolean {
  return c.doc.run.plan.protocol === "program";
}

/** What a run's figures are per. */
export function workOf(run: Run): Work {
  return (run.plan.variants ?? []).some((v) => (v.subscribers ?? 0) > 0) ? "event" : "request";
}

/** The clock that a load's latency goes by: where there are subscribers, that of their
 * events, whatever publishes them. */
export function mainClock(c: Context): string {
  if ((c.doc.run.variants ?? []).some((v) => v.streams)) return "delivery";
  return (planned(c)[0]?.loop || c.doc.run.plan.loop) === "open" ? "response" : "service";
}

/** A variant's figure in a metric with its interval. */
export function figureOf(c: Context, variant: string, metric: string): Estimate | undefined {
  const v = (c.doc.run.variants ?? []).find((x) => x.name === variant);
  return v && estimateOf(v, metric);
}

export function estimateOf(v: Variant, metric: string): Estimate | undefined {
  return v.figures && Object.hasOwn(v.figures, metric) ? v.figures[metric] : undefined;
}

/** The p that decides: within its family where there is one. */
export function pOf(x: Comparison): number | undefined {
  return x.adjusted_p ?? x.p;
}

/** What may be said of a figure; undefined where nobody judged it. */
export function stateOf(c: Context, figure: string, variant: string, base?: string): Validity | undefined {
  return (c.doc.run.validity ?? []).find((v) => v.figure === figure && v.variant === variant && (v.base ?? "") === (base ?? ""));
}

/** A variant's figure in a metric, as it was measured, with the mark that it needs. */
export function written(c: Context, variant: string, metric: string, e: Estimate | undefined): string {
  if (e?.estimate === undefined) {
    const v = (c.doc.run.variants ?? []).find((x) => x.name === variant);
    const few = v?.figures_of_few?.[metric];
    return few === undefined ? unknown : `~${write(unitOf(metric), few)}`;
  }
  return stated(unitOf(metric), e, stateOf(c, metric, variant), c.t("too_disturbed"));
}
