import { details, fitted, h, picture, svg, table, type Child, type Title } from "../dom";
import { linear, ticks } from "../charts/scale";
import type { Estimate, Message } from "../document";
import { estimate, probability, tick, unitOf, unknown, write, type Unit } from "../format";
import type { Texts } from "../i18n";
import { spoken } from "./say";

export interface Series {
  variant: string;
  points: { run: number; figure: Estimate; relative?: number; left_out?: Message }[];
  compared: number;
  changes: { run: number; before: number; after: number; relative?: number; p: number; new_machine?: boolean; new_dyno?: boolean }[];
  detail?: Message;
}

/** What people say about a run. */
export interface Annotations {
  tags?: string[];
  note?: string;
  pinned_at?: string;
}

export interface PastRun extends Annotations {
  dir: string;
  started_at: string;
  rounds: number;
  dyno_version?: string;
}

/** The runs of one plan by one metric. */
export interface Experiment {
  name: string;
  plan: string;
  metric: string;
  runs: PastRun[];
  series: Series[];
  baseline?: PastRun;
}

export interface Past {
  experiments: Experiment[];
  unreadable?: { dir: string; problem: string }[];
}

/** How a page shows what is not a figure. */
export interface Shown {
  run(dir: string): Child;
  instant(text: string): string;
}

/** How many runs stand side by side in a table, the latest. */
const abreast = 8;

/** Every experiment with its figures over time; several metrics of one are also put into a table. */
export function histories(t: Texts, list: Experiment[], shown: Shown, named: boolean): Child {
  const plans = [...new Set(list.map((e) => `${e.name}\n${e.plan}`))];
  return [
    plans.map((plan) => list.filter((e) => `${e.name}\n${e.plan}` === plan)).map((same) => h("section", {},
      same.length > 1 && sideBySide(t, same, shown),
      same.map((e) => [
        h("h2", {}, named && `${e.name}: `, t.plural("history.plan", e.runs.length, { plan: e.plan, metric: t.metric(e.metric) })),
        e.baseline && h("p", { class: "hint" }, t("history.baseline", { run: e.baseline.dir })),
        e.series.map((s) => series(t, e, s, shown)),
      ]))),
    h("p", { class: "hint" }, t("history.hint")),
  ];
}

const percent = (relative: number | undefined) => (relative === undefined ? unknown : `${relative > 0 ? "+" : relative < 0 ? "−" : ""}${Math.abs(100 * relative).toPrecision(2)}%`);

const difference = (relative: number | undefined) => relative !== undefined && ` (${percent(relative)})`;

function sideBySide(t: Texts, same: Experiment[], shown: Shown): Child {
  const { name, runs } = same[0]!;
  const from = Math.max(0, runs.length - abreast);
  const rows: (Child[] | Title)[] = [];
  for (const variant of new Set(same.flatMap((e) => e.series.map((s) => s.variant)))) {
    rows.push({ title: [variant, ...runs.slice(from).map(() => "")] });
    for (const e of same) {
      const s = e.series.find((x) => x.variant === variant);
      if (s) rows.push([t.metric(e.metric), ...s.points.slice(from).map((p) => [estimate(unitOf(e.metric), p.figure), difference(p.relative)])]);
    }
  }
  return [h("h2", {}, name), table(t("history.sideBySide"), [{ head: t("history.sideBySide") }, ...runs.slice(from).map((r) => ({ head: shown.run(r.dir) }))], rows)];
}

function series(t: Texts, e: Experiment, s: Series, shown: Shown): Child {
  const unit = unitOf(e.metric);
  const label = t("history.label", { metric: t.metric(e.metric), variant: s.variant, n: s.points.length, changes: s.changes.length });
  const base = e.baseline?.dir;
  const annotated = e.runs.some((r) => r.tags || r.note);
  return [
    h("h3", {}, s.variant),
    fitted((width) => chart(s, unit, width, label)),
    s.changes.length > 0
      ? h("ul", {}, s.changes.map((c) => h("li", {}, t("history.change", { run: e.runs[c.run]?.dir ?? "", change: `${percent(c.relative)} (${write(unit, c.before)} → ${write(unit, c.after)})`, p: probability(c.p) }),
        c.new_machine && h("span", { class: "badge warn" }, t("history.machine")), " ", c.new_dyno && h("span", { class: "badge warn" }, t("history.dyno")))))
      : s.compared >= 10 && h("p", { class: "hint" }, t("history.noChange", { n: s.compared })),
    s.detail && h("p", { class: "hint" }, spoken(t, s.detail)),
    details(t("history.table"), table(t("history.table"), [
      { head: t("history.run") }, { head: t("history.started"), left: true }, { head: t.metric(e.metric) }, ...(base ? [{ head: "Δ" }] : []), { head: "", left: true },
      ...(annotated ? [{ head: t("history.tags"), left: true }, { head: t("history.note"), left: true }] : []),
    ], s.points.map((p) => {
      const r = e.runs[p.run]!;
      return [
        shown.run(r.dir), shown.instant(r.started_at), estimate(unit, p.figure), ...(base ? [r.dir === base ? t("history.isBaseline") : percent(p.relative)] : []),
        p.left_out ? [`${t("history.left")}: `, spoken(t, p.left_out)] : s.changes.some((c) => c.run === p.run) ? "◆" : "",
        ...(annotated ? [tags(r), r.note] : []),
      ];
    }))),
  ];
}

/** The tags of a run, each by itself. */
export function tags(r: Annotations): Child {
  return (r.tags ?? []).map((tag) => [h("span", { class: "badge" }, tag), " "]);
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
