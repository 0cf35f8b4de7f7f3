import { fitted, h, picture, svg, table, type Child } from "../dom";
import type { Capacity, Estimate, Level, Sweep } from "../document";
import { key } from "../charts/percentiles";
import { probes } from "../charts/probes";
import { scatter, type Plot } from "../charts/scatter";
import { fitting, linear, linearSeries } from "../charts/scale";
import type { Texts } from "../i18n";
import { counts, estimate, plain, rates, tick, times, unitOf, write } from "../format";
import { limit as limits } from "./answer";
import { figureOf, mainClock, orderOf, type Context } from "./context";
import { paragraph, said } from "./say";

/** What the metrics of a sweep do along its variable, and the edge of capacity. */
export function sweeps(c: Context): Child[] {
  const parts: Child[] = c.doc.run.capacities?.length ? [capacity(c, c.doc.run.capacities)] : [];
  const byAxis = new Map<string, Sweep[]>();
  for (const s of c.doc.run.sweeps ?? []) {
    const id = `${s.variable}\n${s.metric}`;
    byAxis.set(id, [...(byAxis.get(id) ?? []), s]);
  }
  for (const list of byAxis.values()) parts.push(curves(c, list));
  const first = [...byAxis.values()].find((l) => l[0]?.metric === "throughput");
  if (first) parts.push(tradeoff(c, first));
  return parts;
}

function levels(s: Sweep): Level[] {
  return s.levels ?? [];
}

function fixed(t: Texts, s: Sweep): string {
  return Object.entries(s.fixed ?? {}).map(([k, v]) => `${k} ${v}`).join(", ") || t.metric(s.metric);
}

function curves(c: Context, list: Sweep[]): Child {
  const { t } = c;
  const s = list[0]!;
  const unit = unitOf(s.metric);
  const values = list.flatMap((x) => levels(x).map((l) => l.value));
  const log = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 8;
  const title = t("sweep.title", { metric: t.metric(s.metric), variable: s.variable });
  const plot: Plot = {
    label: title, x: { unit: counts, name: s.variable, log }, y: { unit, name: t.metric(s.metric) },
    lines: list.map((x, order) => ({ order, points: levels(x).map((l) => ({ x: { estimate: l.value }, y: l.figure })) })),
    ...(list.length === 1 && s.knee !== undefined ? { knee: s.knee } : {}),
  };
  return [
    h("h3", {}, title), keys(t, list), fitted((width) => scatter(plot, width)),
    list.map((x) => x.knee !== undefined && h("p", {}, list.length > 1 && `${fixed(t, x)}: `, t("sweep.knee", { level: write(plain, x.knee) }))),
    table(title, [{ head: s.variable }, ...list.map((x) => ({ head: fixed(t, x) }))],
      [...new Set(values)].sort((a, b) => a - b).map((v) => [write(plain, v), ...list.map((x) => estimate(unit, levels(x).find((l) => l.value === v)?.figure))])),
  ];
}

function keys(t: Texts, list: Sweep[]): Child {
  return list.length > 1 && h("p", { class: "keys" }, list.map((x, i) => h("span", {}, key(i), " ", fixed(t, x))));
}

/** Latency over throughput, level by level. */
function tradeoff(c: Context, list: Sweep[]): Child {
  const { t } = c;
  const metric = `${mainClock(c)}.p99`;
  const lines = list.map((s, order) => ({
    order,
    points: levels(s).flatMap((l) => {
      const y = figureOf(c, l.variant, metric);
      return y?.estimate === undefined || l.figure.estimate === undefined ? [] : [{ x: l.figure, y, label: tick(counts, l.value) }];
    }),
  }));
  if (!lines.some((l) => l.points.length > 1)) return null;
  const plot: Plot = { label: t("sweep.latency"), lines, x: { unit: rates, name: t.metric("throughput") }, y: { unit: times, name: t.metric(metric) } };
  return [h("h3", {}, `${t("sweep.latency")} (${t.metric(metric)})`), keys(t, list), fitted((width) => scatter(plot, width)),
    h("p", { class: "hint" }, t("sweep.latencyHint", { variable: list[0]!.variable }))];
}

function capacity(c: Context, list: Capacity[]): Child {
  const { t } = c;
  const bracket = (low: number | undefined, high: number | undefined) => `${low === undefined ? t("capacity.below") : write(counts, low)} … ${high === undefined ? t("capacity.beyond") : write(counts, high)}`;
  const { slo } = c.doc;
  const trials = (c.doc.trials ?? []).filter((x) => x.latency_seconds !== undefined);
  const limit = slo && t("capacity.slo", { metric: t.metric(slo.metric), limit: write(times, slo.limit_seconds) });
  const label = slo && t("capacity.latency", { metric: t.metric(slo.metric) });
  return [
    h("h3", {}, t("capacity.title")),
    slo && trials.length > 0 ? [
      list.length > 1 && h("p", { class: "keys" }, list.map((x) => h("span", {}, key(orderOf(c, x.variant)), " ", x.variant))),
      fitted((width) => probes({ capacities: list.map((x) => ({ variant: x.variant, rate: rateOf(c, x) })), trials, slo, order: (v) => orderOf(c, v), label: label!, limit: limit!, x: t("capacity.tried") }, width)),
      h("p", { class: "hint" }, paragraph(t, label!, t("capacity.hint"), t("capacity.open"))),
    ] : [fitted((width) => edge(c, list, width)), h("p", { class: "hint" }, t("capacity.hint"))],
    table(t("capacity.title"), [{ head: t("col.variant") }, { head: t("capacity.rate") }, { head: t("capacity.searches"), left: true }, { head: t("capacity.limit"), left: true }],
      list.map((x) => [x.variant, estimate(rates, rateOf(c, x)), (x.searches ?? []).map((s) => bracket(s.low_per_second, s.high_per_second)).join(", "), [limits(c, x), (x.limit || x.limit_because) && x.detail && t("answer.semicolon"), said(t, x.detail)]])),
  ];
}

const rateOf = (c: Context, x: Capacity): Estimate => figureOf(c, x.variant, "capacity") ?? {};

/** The rates that were tried, variant by variant, and where the edge is. */
function edge(c: Context, list: Capacity[], width: number): SVGSVGElement {
  const probes = (c.doc.trials ?? []).filter((x) => x.purpose === "probe" && x.rate_per_second !== undefined);
  const all = [...probes.map((p) => p.rate_per_second!), ...list.flatMap((x) => [rateOf(c, x).high ?? 0, rateOf(c, x).estimate ?? 0])];
  const row = 40, top = 6, foot = 26, names = Math.min(200, 16 + 7.2 * Math.max(...list.map((x) => x.variant.length)));
  const height = top + row * list.length + foot;
  const x = linear(0, Math.max(...all) * 1.05, names, width - 14);
  return picture(width, height, c.t("capacity.label"),
    fitting(linearSeries(x.low, x.high, 6), x, (v) => tick(rates, v)).map((v) => [
      svg("line", { x1: x(v), x2: x(v), y1: top, y2: height - foot, class: "grid" }),
      svg("text", { x: x(v), y: height - 8, "text-anchor": "middle", class: "tick" }, tick(rates, v)),
    ]),
    list.map((k, i) => {
      const y = top + row * i + row / 2, e = rateOf(c, k), colour = `var(--series-${orderOf(c, k.variant) % 8})`;
      return [
        svg("text", { x: 0, y: y + 4, class: "name" }, k.variant),
        e.low !== undefined && e.high !== undefined && svg("rect", { x: x(e.low), width: Math.max(1, x(e.high) - x(e.low)), y: y - 14, height: 28, class: "band" }),
        e.estimate !== undefined && svg("line", { x1: x(e.estimate), x2: x(e.estimate), y1: y - 14, y2: y + 14, stroke: colour, "stroke-width": 3 }),
        probes.filter((p) => p.variant === k.variant).map((p) => {
          const px = x(p.rate_per_second!), py = y - 8 + (p.round % 5) * 4;
          return p.good ? svg("circle", { cx: px, cy: py, r: 3, fill: colour })
            : svg("path", { d: `M${px - 3} ${py - 3}l6 6m0 -6l-6 6`, stroke: colour, "stroke-width": 1.5, fill: "none" });
        }),
      ];
    }));
}
