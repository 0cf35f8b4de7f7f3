import uPlot from "uplot";
import { h } from "../dom";
import { binsPerDecade, type Heat, type Numbers } from "../document";
import { sizeRates, sizes, tick, times, write, type Unit } from "../format";
import { mixed, resolved, resolvedSeries } from "./colours";
import { logAxis } from "./logaxis";

export interface Strand {
  name: string;
  order: number; // its colour
  time: Numbers;
  mean: Numbers;
  low?: Numbers;
  high?: Numbers;
}

export interface Panel {
  name: string;
  unit: Unit;
  strands: Strand[];
}

const gutter = 74;

function axes(unit: Unit): uPlot.Axis[] {
  const common = { stroke: resolved("--muted"), font: "11px system-ui, sans-serif", grid: { stroke: resolved("--rule"), width: 1 }, ticks: { show: false } };
  return [
    { ...common, size: 24, values: (_, list) => list.map((v) => `${v} s`) },
    { ...common, size: gutter, space: 26, ...(unit === sizes || unit === sizeRates ? { incrs: Array.from({ length: 45 }, (_, i) => 2 ** i) } : {}), values: (_, list) => list.map((v) => (v === null ? "" : tick(unit, v))) },
  ];
}

/** Where a cursor is that all panels of one group share, and what they zoom to. */
export class Group {
  readonly plots: uPlot[] = [];
  private readonly sync: uPlot.SyncPubSub;
  private whole: [number, number] = [0, 1];
  private setting = false;

  constructor(readonly key: string, range: [number, number], private readonly warmup: number) {
    this.sync = uPlot.sync(key);
    this.whole = range;
  }

  options(width: number, height: number, unit: Unit): Pick<uPlot.Options, "width" | "height" | "cursor" | "axes" | "legend" | "padding" | "hooks"> {
    return {
      width, height, axes: axes(unit), legend: { show: false }, padding: [6, 18, 0, 0],
      cursor: { sync: { key: this.key, setSeries: false }, y: false, drag: { x: true, y: false }, points: { size: 6 } },
      hooks: { drawClear: [(u) => this.shade(u)], setScale: [(u, scale) => { if (scale === "x") this.zoomed(u); }] },
    };
  }

  /** What an axis shows: all, where a panel would show no more than its own data. */
  range(u: uPlot, min: number | null, max: number | null): [number, number] {
    const own = u.data[0];
    return min === null || max === null || (min === own[0] && max === own.at(-1)) ? [...this.whole] : [min, max];
  }

  /** Marks the warm-up, of which nothing counts. */
  private shade(u: uPlot): void {
    const to = u.valToPos(this.warmup, "x", true);
    if (this.warmup <= 0 || to <= u.bbox.left) return;
    u.ctx.fillStyle = resolved("--soft");
    u.ctx.fillRect(u.bbox.left, u.bbox.top, Math.min(to, u.bbox.left + u.bbox.width) - u.bbox.left, u.bbox.height);
  }

  add(plot: uPlot): void {
    this.plots.push(plot);
    this.sync.sub(plot);
  }

  /** Shows a stretch of time in all panels. */
  show(min: number, max: number): void {
    const [from, to] = this.whole;
    const span = Math.min(to - from, Math.max((to - from) / 1000, max - min));
    const start = Math.min(to - span, Math.max(from, min));
    this.setting = true;
    for (const p of this.plots) p.setScale("x", { min: start, max: start + span });
    this.setting = false;
  }

  /** Zooms by a factor, or moves by a share of what is shown. */
  by(factor: number, shift: number): void {
    const s = this.plots[0]?.scales["x"];
    if (s?.min === undefined || s.max === undefined || s.min === null || s.max === null) return;
    const middle = (s.min + s.max) / 2 + shift * (s.max - s.min), half = ((s.max - s.min) * factor) / 2;
    this.show(middle - half, middle + half);
  }

  private zoomed(u: uPlot): void {
    const { min, max } = u.scales["x"] ?? {};
    if (this.setting || min === undefined || max === undefined || min === null || max === null) return;
    this.setting = true;
    for (const p of this.plots) if (p !== u) p.setScale("x", { min, max });
    this.setting = false;
  }

  destroy(): void {
    for (const p of this.plots) {
      this.sync.unsub(p);
      p.destroy();
    }
    this.plots.length = 0;
  }
}

/** A panel of lines over time, with the range that each point sums up as a band. */
export function lines(p: Panel, width: number, group: Group, readout: HTMLElement): HTMLElement {
  const tables = p.strands.map((s) => [s.time, s.mean, s.low ?? s.mean, s.high ?? s.mean] as uPlot.AlignedData);
  const data = tables.length === 1 ? tables[0]! : uPlot.join(tables);
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const s of p.strands) {
    const stroke = resolvedSeries(s.order), at = series.length;
    const common = { spanGaps: true, points: { show: false } };
    series.push({ ...common, label: s.name, stroke, width: 1.8, ...(s.order >= 8 ? { dash: [7, 3] } : {}) },
      { ...common, stroke: "transparent", width: 0 }, { ...common, stroke: "transparent", width: 0 });
    if (s.low) bands.push({ series: [at + 2, at + 1], fill: `${stroke}2e` });
  }
  const shared = group.options(width, 124, p.unit);
  const host = h("div", { class: "plot" });
  const plot = new uPlot({
    ...shared, series, bands,
    scales: { x: { time: false, range: (u, min, max) => group.range(u, min, max) }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] } },
    hooks: { ...shared.hooks, setCursor: [(u) => {
      const i = u.cursor.idx;
      readout.textContent = i === null || i === undefined ? "" : p.strands.map((s, n) => {
        const v = nearest(u.data[1 + 3 * n] as Numbers, i);
        return `${s.name} ${write(p.unit, v)}`;
      }).join("   ");
    }] },
  }, data, host);
  group.add(plot);
  return host;
}

/** The value at a row or, where tables were joined, next to it. */
export function nearest(list: Numbers, i: number): number | null {
  for (let d = 0; d < 4; d++) {
    for (const j of [i - d, i + d]) {
      const v = list[j];
      if (v !== null && v !== undefined) return v;
    }
  }
  return null;
}

/** Latencies over time as a heat map, on a log axis. */
export function heatMap(heat: Heat, width: number, group: Group): HTMLElement {
  const rows = Math.max(1, ...heat.columns.map((c) => c.length));
  const bound = (b: number) => 10 ** ((heat.first + b) / binsPerDecade - 9);
  const most = Math.max(1, ...heat.columns.flat());
  const pale = resolved("--heat-low"), strong = resolved("--heat-high");
  const shared = group.options(width, 190, times);
  const middles = heat.columns.map((_, i) => heat.start_seconds + (i + 0.5) * heat.step_seconds);
  const host = h("div", { class: "plot" });
  const plot = new uPlot({
    ...shared,
    axes: (shared.axes ?? []).map((a, i) => ({ ...a, ...(i === 1 ? logAxis : {}), grid: { show: false } })), // it would be drawn over the map
    series: [{}, { stroke: "transparent", points: { show: false } }],
    scales: { x: { time: false, range: (u, min, max) => group.range(u, min, max) }, y: { distr: 3, range: [bound(0), bound(rows)] } },
    hooks: { ...shared.hooks, drawClear: [...(shared.hooks?.drawClear ?? []), (u) => {
      const { ctx } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      heat.columns.forEach((column, i) => {
        const from = u.valToPos(heat.start_seconds + i * heat.step_seconds, "x", true);
        const to = u.valToPos(heat.start_seconds + (i + 1) * heat.step_seconds, "x", true);
        column.forEach((n, b) => {
          if (n === 0) return;
          const low = u.valToPos(bound(b), "y", true), high = u.valToPos(bound(b + 1), "y", true);
          ctx.fillStyle = mixed(pale, strong, Math.log1p(n) / Math.log1p(most));
          ctx.fillRect(Math.floor(from), Math.floor(high), Math.ceil(to - from) + 0.5, Math.ceil(low - high) + 0.5);
        });
      });
      ctx.restore();
    }] },
  }, [middles, middles.map(() => bound(rows / 2))], host);
  group.add(plot);
  return host;
}

/** A quantile of a heat map's column, to the width of a bin; null without values. */
export function heatQuantile(heat: Heat, columns: number[][], q: number): number | null {
  const sums: number[] = [];
  for (const c of columns) c.forEach((n, b) => { sums[b] = (sums[b] ?? 0) + n; });
  const total = sums.reduce((a, n) => a + (n ?? 0), 0);
  let seen = 0;
  for (let b = 0; b < sums.length; b++) {
    seen += sums[b] ?? 0;
    if (total > 0 && seen >= q * total) return 10 ** ((heat.first + b + 0.5) / binsPerDecade - 9);
  }
  return null;
}
