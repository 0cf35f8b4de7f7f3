import { details, fitted, h, select, table, type Child } from "../dom";
import type { Grid, Heat, Timeline, Trial } from "../document";
import { Group, heatMap, heatQuantile, lines, type Panel, type Strand } from "../charts/lines";
import { key } from "../charts/percentiles";
import { figure, times, unitNamed, write } from "../format";
import { legend } from "./latency";
import { orderOf, planned, type Context } from "./context";
import { paragraph } from "./say";

let groups = 0;

/** Time lines of one round's trials on one cursor, and a variant's heat map. */
export function time(c: Context): Child[] {
  const { t } = c;
  const trials = new Map((c.doc.trials ?? []).map((x) => [x.number, x]));
  const all = (c.doc.timelines ?? []).flatMap((line) => {
    const trial = trials.get(line.trial);
    return trial ? [{ line, trial }] : [];
  });
  if (all.length === 0) return [];
  const rounds = [...new Set(all.map((x) => x.trial.round))].sort((a, b) => a - b);
  const host = h("div");
  let group: Group | undefined;
  const redraw = () => {
    const round = rounds.includes(c.chosen.round ?? 0) ? c.chosen.round! : rounds[0]!;
    const own = all.filter((x) => x.trial.round === round).sort((a, b) => orderOf(c, a.trial.variant) - orderOf(c, b.trial.variant));
    const shown = own.filter((x) => !c.chosen.hidden.has(x.trial.variant));
    const hot = own.find((x) => x.trial.variant === c.chosen.heat && x.line.heat) ?? own.find((x) => x.line.heat);
    const panels = panelsOf(c, shown.map((x) => ({ variant: x.trial.variant, line: x.line })));
    const range = extent(own);
    const label = (name: string, body: HTMLElement, readout?: HTMLElement) => h("figure", { class: "panel" }, h("figcaption", {}, h("b", {}, name), readout ?? null), body);
    host.replaceChildren(fitted((width) => {
      group?.destroy();
      group = new Group(`time${++groups}`, range, Math.max(0, ...own.map((x) => x.trial.warmup_seconds)));
      const current = group;
      const drawn = panels.map((p) => {
        const readout = h("span", { class: "values" });
        return label(p.name, lines(p, width, current, readout), readout);
      });
      const heat = hot?.line.heat;
      const map = heat && label(heatName(c, heat, hot.trial.variant), heatMap(heat, width, current), h("span", { class: "values" }, t("time.heatHint")));
      return h("div", {}, drawn.slice(0, 3), map ?? null, drawn.slice(3));
    }), tables(c, panels, hot?.line.heat, hot?.trial.variant ?? ""));
  };
  redraw();
  c.redraws.push(redraw);
  c.ends.push(() => group?.destroy());
  const button = (text: string, sign: string, does: () => void) => h("button", { type: "button", title: text, "aria-label": text, click: does }, sign);
  const heated = planned(c).filter((v) => all.some((x) => x.trial.variant === v.name && x.line.heat));
  const start = rounds.includes(c.chosen.round ?? 0) ? c.chosen.round! : rounds[0]!;
  return [
    h("div", { class: "controls" },
      rounds.length > 1 && select(t("time.round"), rounds.map((r) => [String(r), String(r)]), String(start), (r) => { c.chosen.round = Number(r); redraw(); }),
      heated.length > 1 && select(t("time.heatOf"), heated.map((v) => [v.name, v.name]), c.chosen.heat ?? heated[0]!.name, (v) => { c.chosen.heat = v; redraw(); }),
      h("span", { class: "buttons", role: "group" },
        button(t("time.in"), "+", () => group?.by(0.5, 0)), button(t("time.out"), "−", () => group?.by(2, 0)),
        button(t("time.left"), "←", () => group?.by(1, -0.25)), button(t("time.right"), "→", () => group?.by(1, 0.25)),
        button(t("time.all"), "⤢", () => group?.by(1e6, 0))),
      legend(c, redraw)),
    host,
    h("p", { class: "hint" }, paragraph(t, t("time.zoom"), t("time.warmup"), (c.doc.timelines_left_out ?? 0) > 0 ? t.plural("time.leftOut", c.doc.timelines_left_out!) : "")),
  ];
}

function heatName(c: Context, heat: Heat, variant: string): string {
  return c.t("time.heat", { clock: c.t.clock(heat.clock), variant });
}

/** From the first request to the end of the window, or of what was read. */
function extent(list: { line: Timeline; trial: Trial }[]): [number, number] {
  const read = list.flatMap(({ line }) => [...(line.load?.time ?? []), ...(line.observed?.time ?? [])]).filter((v): v is number => v !== null);
  return [Math.min(0, ...read), Math.max(1e-3, ...read, ...list.map(({ trial }) => trial.warmup_seconds + trial.window_seconds))];
}

/** One panel for each line that any trial has, latency first. */
export function panelsOf(c: Context, list: { variant: string; line: Timeline }[]): Panel[] {
  const panels = new Map<string, Panel>();
  const add = (variant: string, grid: Grid | undefined) => {
    for (const l of grid?.lines ?? []) {
      const id = l.key || l.column || "";
      let p = panels.get(id);
      if (!p) panels.set(id, (p = { name: l.key ? c.t.maybe(`line.${l.key}`, l.key) : (l.column ?? ""), unit: unitNamed(l.unit), strands: [] }));
      const s: Strand = { name: variant, order: orderOf(c, variant), time: grid!.time, mean: l.mean };
      if (l.low && l.high) Object.assign(s, { low: l.low, high: l.high });
      p.strands.push(s);
    }
  };
  for (const { variant, line } of list) add(variant, line.load);
  for (const { variant, line } of list) add(variant, line.observed);
  return [...panels.values()];
}

/** What the panels show, for readers who do not see them. */
function tables(c: Context, panels: Panel[], heat: Heat | undefined, variant: string): HTMLElement {
  const { t } = c;
  const rows: Child[][] = [];
  for (const p of panels) {
    rows.push([p.name]);
    for (const s of p.strands) {
      const mean = s.mean.filter((v): v is number => v !== null);
      const low = (s.low ?? s.mean).filter((v): v is number => v !== null), high = (s.high ?? s.mean).filter((v): v is number => v !== null);
      if (mean.length === 0) continue;
      rows.push([[key(s.order), " ", s.name], write(p.unit, mean.reduce((a, v) => a + v, 0) / mean.length), write(p.unit, Math.min(...low)), write(p.unit, Math.max(...high))]);
    }
  }
  const parts: Child[] = [details(t("time.table"), table(t("time.table"), [{ head: t("col.variant") }, { head: t("time.mean") }, { head: t("time.low") }, { head: t("time.high") }], rows))];
  if (heat) {
    const slices = Math.min(12, heat.columns.length), size = heat.columns.length / slices;
    parts.push(details(t("time.heatTable"), h("p", {}, heatName(c, heat, variant)), table(t("time.heatTable"), [{ head: t("time.at") }, { head: "p50" }, { head: "p90" }, { head: "p99" }],
      Array.from({ length: slices }, (_, i) => {
        const part = heat.columns.slice(Math.round(i * size), Math.round((i + 1) * size));
        const at = heat.start_seconds + Math.round(i * size) * heat.step_seconds;
        return [`${figure(at)} ${t("time.seconds")}`, ...[0.5, 0.9, 0.99].map((q) => write(times, heatQuantile(heat, part, q)))];
      }))));
  }
  return h("div", {}, parts.map((p) => p));
}
