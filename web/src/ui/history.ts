import { details, fitted, h, picture, select, svg, table, type Child } from "../dom";
import { linear, ticks } from "../charts/scale";
import { estimate, probability, tick, unitOf, write, type Unit } from "../format";
import { spoken } from "../report/say";
import { call, type Past, type Series } from "./api";
import { link, runPage, type App, type Page } from "./app";

const metrics = ["", "throughput", "service.p50", "service.p99", "response.p50", "response.p99", "target.cpu_per_request", "capacity"];

/** The figures of an experiment's runs, and where they changed for good. */
export async function past(app: App, name: string, query: URLSearchParams): Promise<Page> {
  const { t } = app;
  const metric = query.get("metric") ?? "";
  const list = await call<Past>("GET", `/api/history?experiment=${encodeURIComponent(name)}${metric ? `&metric=${encodeURIComponent(metric)}` : ""}`, undefined, app.signal);
  const names = [...new Set([...metrics, metric])].map((m) => [m, m ? t.report.metric(m) : t("history.own")] as [string, string]);
  const unreadable = list.unreadable?.length ?? 0;
  return { title: t("history.title", { name }), content: [
    h("div", { class: "controls" }, select(t("history.metric"), names, metric, (m) => app.go(`#/history/${encodeURIComponent(name)}${m ? `?metric=${encodeURIComponent(m)}` : ""}`))),
    list.experiments.map((e) => h("section", {},
      h("h2", {}, t.plural("history.plan", e.runs.length, { plan: e.plan, metric: t.report.metric(e.metric) })),
      e.series.map((s) => series(app, e, s)))),
    h("p", { class: "hint" }, t("history.hint")),
    unreadable > 0 && h("p", { class: "hint" }, t.plural("history.unreadable", unreadable)),
  ] };
}

type Runs = Past["experiments"][number];

function series(app: App, e: Runs, s: Series): Child {
  const { t } = app;
  const unit = unitOf(e.metric);
  const changed = (relative: number | undefined) => (relative === undefined ? "–" : `${relative > 0 ? "+" : "−"}${Math.abs(100 * relative).toPrecision(2)}%`);
  const label = t("history.label", { metric: t.report.metric(e.metric), variant: s.variant, n: s.points.length, changes: s.changes.length });
  return [
    h("h3", {}, s.variant),
    fitted((width) => chart(s, unit, width, label)),
    s.changes.length > 0
      ? h("ul", {}, s.changes.map((c) => h("li", {}, t("history.change", { run: e.runs[c.run]?.dir ?? "", change: `${changed(c.relative)} (${write(unit, c.before)} → ${write(unit, c.after)})`, p: probability(c.p) }),
        c.new_machine && h("span", { class: "badge warn" }, t("history.machine")), " ", c.new_dyno && h("span", { class: "badge warn" }, t("history.dyno")))))
      : s.compared >= 10 && h("p", { class: "hint" }, t("history.noChange", { n: s.compared })),
    s.detail && h("p", { class: "hint" }, spoken(t.report, s.detail)),
    details(t("history.table"), table(t("history.table"), [{ head: t("runs.run") }, { head: t("runs.started"), left: true }, { head: t.report.metric(e.metric) }, { head: "", left: true }],
      s.points.map((p) => {
        const r = e.runs[p.run]!;
        return [link(runPage(r.dir), r.dir), t.instant(r.started_at), estimate(unit, p.figure), p.left_out ? [`${t("history.left")}: `, spoken(t.report, p.left_out)] : s.changes.some((c) => c.run === p.run) ? "◆" : ""];
      }))),
  ];
}

const left = 74, right = 12, top = 10, foot = 26, height = 200;

/** Estimates with their intervals in the order of the runs; a line where they changed. */
export function chart(s: Series, unit: Unit, width: number, label: string): SVGSVGElement {
  const values = s.points.flatMap((p) => [p.figure.estimate, p.figure.low, p.figure.high]).filter((v): v is number => v !== undefined && Number.isFinite(v));
  const estimates = s.points.flatMap((p) => (p.figure.estimate === undefined ? [] : [p.figure.estimate]));
  const most = Math.max(0, ...estimates), least = Math.min(most, ...estimates);
  // Intervals may be without measure: they do not flatten what they belong to.
  const room = Math.max(most - least, 0.05 * most, 1e-12);
  const y = linear(Math.max(Math.min(...values, least) , least - room), Math.min(Math.max(...values, most), most + room), height - foot, top);
  const x = linear(-0.5, Math.max(0.5, s.points.length - 0.5), left, width - right);
  const clamp = (v: number) => Math.min(height - foot, Math.max(top, y(v)));
  const means = s.changes.flatMap((c, i) => {
    const until = s.changes[i + 1]?.run ?? s.points.length;
    return [
      i === 0 && svg("line", { x1: x(-0.5), x2: x(c.run - 0.5), y1: y(c.before), y2: y(c.before), class: "mean" }),
      svg("line", { x1: x(c.run - 0.5), x2: x(until - 0.5), y1: y(c.after), y2: y(c.after), class: "mean" }),
      svg("line", { x1: x(c.run - 0.5), x2: x(c.run - 0.5), y1: top, y2: height - foot, class: "turn" }),
    ];
  });
  return picture(width, height, label,
    ticks(y.low, y.high, 5).map((v) => [
      svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, tick(unit, v)),
    ]),
    [...new Set([0, s.points.length - 1, ...s.changes.map((c) => c.run)])].map((i) => svg("text", { x: x(i), y: height - foot + 16, "text-anchor": "middle" }, i + 1)),
    means,
    s.points.map((p, i) => p.figure.estimate !== undefined && [
      p.figure.low !== undefined && p.figure.high !== undefined && svg("line", { x1: x(i), x2: x(i), y1: clamp(p.figure.low), y2: clamp(p.figure.high), class: "whisker" }),
      svg("circle", { cx: x(i), cy: y(p.figure.estimate), r: 3.6, class: p.left_out ? "point out" : "point" }),
    ]));
}
