import uPlot from "uplot";
import { h } from "../dom";
import { tick, write, type Unit } from "../format";
import { resolved, resolvedSeries } from "../charts/colours";
import { logAxis } from "../charts/logaxis";

export interface Strand {
  name: string;
  order: number; // its colour
  dash?: number[];
}

/** A plot whose data grow while it is shown. */
export class GrowingPlot {
  readonly element: HTMLElement;
  private readonly host = h("div", { class: "plot" });
  private readonly readout = h("span", { class: "values" });
  private readonly observer: ResizeObserver;
  private plot: uPlot | undefined;
  private data: (number | null)[][];

  constructor(title: string, label: string, private readonly unit: Unit, private readonly strands: Strand[], private readonly logarithmic: boolean, private readonly cursor: string) {
    this.data = [[], ...strands.map(() => [])];
    this.host.setAttribute("role", "img");
    this.host.setAttribute("aria-label", label);
    this.element = h("figure", { class: "panel" }, h("figcaption", {}, h("b", {}, title), this.readout), this.host);
    this.observer = new ResizeObserver(() => {
      const width = Math.floor(this.host.clientWidth);
      if (width > 0 && width !== this.plot?.width) this.draw(width);
    });
    this.observer.observe(this.host);
  }

  set(time: number[], ...values: (number | null)[][]): void {
    this.data = [time, ...values];
    this.plot?.setData(this.data as uPlot.AlignedData);
    this.read(time.length - 1);
  }

  /** Draws again, in the colours of now. */
  repaint(): void {
    if (this.plot) this.draw(this.plot.width);
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  private read(i: number): void {
    this.readout.textContent = i < 0 ? "" : this.strands.map((s, n) => `${s.name} ${write(this.unit, this.data[n + 1]![i])}`).join("   ");
  }

  private draw(width: number): void {
    this.plot?.destroy();
    const common = { stroke: resolved("--muted"), font: "11px system-ui, sans-serif", grid: { stroke: resolved("--rule"), width: 1 }, ticks: { show: false } };
    this.plot = new uPlot({
      width, height: 190, legend: { show: false }, padding: [8, 18, 0, 0],
      cursor: { sync: { key: this.cursor }, y: false, drag: { x: false, y: false } },
      axes: [
        { ...common, size: 24, incrs: [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600], values: (_, list) => list.map((v) => `${v} s`) },
        { ...common, size: 74, space: 30, ...(this.logarithmic ? logAxis : {}), values: (_, list) => list.map((v) => (v === null ? "" : tick(this.unit, v))) },
      ],
      scales: {
        x: { time: false, range: (_u, min, max) => [min ?? 0, Math.max((min ?? 0) + 10, max ?? 10)] },
        y: this.logarithmic ? { distr: 3, range: (_u, min, max) => (min > 0 && max > 0 ? [min / 1.3, max * 1.3] : [1e-5, 1]) } : { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      series: [{}, ...this.strands.map((s) => ({ label: s.name, stroke: resolvedSeries(s.order), width: 1.8, spanGaps: false, ...(s.dash ? { dash: s.dash } : {}) }))],
      hooks: { setCursor: [(u) => this.read(u.cursor.idx ?? this.data[0]!.length - 1)] },
    }, this.data as uPlot.AlignedData, this.host);
  }
}
