import { h, table, type Child } from "../dom";
import type { Estimate, Variant } from "../document";
import { bar, figureInterval } from "../charts/intervals";
import { counts, unknown, write } from "../format";
import { shown } from "../names";
import { estimateOf, isProgram, mainClock, planned, written, type Context } from "./context";

const dots = 116;

/** What was measured of each variant, with the values of its trials. */
export function figures(c: Context): Child[] {
  const { t } = c;
  const variants = c.doc.run.variants ?? [];
  const clock = mainClock(c);
  const metrics = isProgram(c) ? [] : shown.figures.flatMap((m) => [m, ...(m === "throughput" ? [`${clock}.p50`, `${clock}.p99`, `${clock}.p999`, `${clock}.max`] : [])]);
  const there = metrics.filter((m) => variants.some((v) => estimateOf(v, m)?.estimate !== undefined));
  const parts: Child[] = [];
  if (there.length > 0) {
    const main = there[0]!;
    const most = highest(variants.map((v) => estimateOf(v, main)));
    parts.push(table(t("section.figures"), [
      { head: t("col.variant") }, { head: t("col.trials") },
      ...there.flatMap((m) => [{ head: h("span", { title: m }, t.metric(m)) }, ...(m === main ? [{ head: t("figures.dots"), left: true }] : [])]),
    ], variants.map((v) => [
      v.name, v.trials,
      ...there.flatMap((m) => {
        const e = estimateOf(v, m);
        const text = written(c, v.name, m, e);
        return [text, ...(m === main ? [e ? figureInterval(e, most, dots, `${v.name}: ${text}`) : ""] : [])];
      }),
    ])));
  }
  parts.push(programs(c));
  return parts;
}

function highest(list: (Estimate | undefined)[]): number {
  return Math.max(1e-12, ...list.flatMap((e) => (e ? [e.estimate ?? 0, ...(e.values ?? []), Math.min(e.high ?? 0, 3 * (e.estimate ?? 0))] : [])));
}

/** What programs printed, a group for each figure. */
function programs(c: Context): Child {
  const { t } = c;
  const variants = c.doc.run.variants ?? [];
  const names = [...new Set(variants.flatMap((v) => Object.keys(v.figures ?? {})))].filter((name) => name.startsWith("program.")).sort();
  if (names.length === 0) return null;
  const rows: Child[][] = [];
  for (const metric of names) {
    const most = highest(variants.map((v) => estimateOf(v, metric)));
    rows.push([metric.slice("program.".length)]);
    for (const v of variants) {
      const e = estimateOf(v, metric);
      const text = written(c, v.name, metric, e);
      rows.push([v.name, text, e ? figureInterval(e, most, dots, `${v.name}: ${text}`) : ""]);
    }
  }
  return [h("h3", {}, t("figures.program")), table(t("figures.program"), [{ head: t("col.variant") }, { head: t("col.figure") }, { head: t("figures.dots"), left: true }], rows)];
}

/** Six dimensions side by side: throughput, tail, reuse, CPU, memory, system calls. */
export function dimensions(c: Context): Child[] {
  const { t } = c;
  const clock = mainClock(c);
  const variants = (c.doc.run.variants ?? []).filter((v) => planned(c).some((p) => p.name === v.name));
  const tail = { metric: `${clock}.p99`, head: t("dimension.tail", { clock: t.clock(clock) }) };
  const known = shown.dimensions.flatMap((metric) => [{ metric, head: t.metric(metric) }, ...(metric === "throughput" ? [tail] : [])]).filter(({ metric }) => variants.some((v) => estimateOf(v, metric)?.estimate !== undefined));
  // With fewer, the other tables have them.
  return [known.length < 4 ? null : bars(c, t("section.dimensions"), variants, known, 120), ...calls(c, variants)].filter((x) => x !== null);
}

/** The system calls of targets for each request, by name. */
function calls(c: Context, variants: Variant[]): Child[] {
  const { t } = c;
  const found = c.doc.calls;
  if (!found) return [];
  const title = t.metric("target.syscalls_per_request");
  return [
    h("h3", {}, title),
    found.most.length < found.all ? h("p", {}, t("calls.most", { n: String(found.most.length), of: String(found.all) })) : null,
    table(title, [{ head: t("calls.name") }, ...variants.map((v) => ({ head: v.name }))], found.most.map((x) => [
      h("code", {}, x.name), ...variants.map((v) => (x.per_request[v.name] === undefined ? unknown : write(counts, x.per_request[v.name]))),
    ])),
  ];
}

/** Variants by metrics, each column compared by eye. */
export function bars(c: Context, label: string, variants: Variant[], columns: { metric: string; head: string }[], width: number): HTMLElement {
  return table(label, [{ head: c.t("col.variant") }, ...columns.map((d) => ({ head: h("span", { title: d.metric }, d.head) }))],
    variants.map((v) => [v.name, ...columns.map(({ metric }) => {
      const e = estimateOf(v, metric);
      return e?.estimate === undefined ? unknown : h("span", { class: "stack" }, written(c, v.name, metric, e), bar(e, highest(variants.map((x) => estimateOf(x, metric))), width));
    })]));
}
