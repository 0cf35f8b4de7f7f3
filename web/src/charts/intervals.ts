import { svg, picture } from "../dom";
import type { Estimate } from "../document";
import { tick, type Unit } from "../format";
import { fitting, labelWidth, linear, logarithmic, ratioSeries, type Scale } from "./scale";

const height = 22;

/** How far intervals are drawn, so that a very wide one leaves the others their places. */
const farthest = 100;

/** The scale that intervals of ratios share: around 1, on a log axis. All estimates are
 * on it. */
export function ratioScale(list: Estimate[], margin: number, width: number): Scale {
  const distance = (values: (number | undefined)[]) => Math.max(1, ...values.flatMap((v) => (v !== undefined && v > 0 ? [v, 1 / v] : [])));
  const ends = Math.min(distance(list.flatMap((e) => [e.low, e.high])), farthest);
  const far = 1.03 * Math.max(1 + Math.max(margin * 1.5, 0.02), distance(list.map((e) => e.estimate)), ends);
  return logarithmic(1 / far, far, 8, width - 8);
}

/** A ratio with its interval, and the band of differences that do not matter. An end
 * beyond the scale is not closed. */
export function ratioInterval(e: Estimate, scale: Scale, margin: number, width: number, label: string, verdict: string): SVGSVGElement {
  const y = height / 2;
  const band = margin > 0 && svg("rect", { x: scale(1 / (1 + margin)), width: scale(1 + margin) - scale(1 / (1 + margin)), y: 0, height, class: "band" });
  const from = e.low === undefined ? 2 : Math.max(2, scale(e.low));
  const to = e.high === undefined ? width - 2 : Math.min(width - 2, scale(e.high));
  const bounds = e.low !== undefined || e.high !== undefined;
  const end = (v: number | undefined) => v !== undefined && v >= scale.low && v <= scale.high
    && svg("line", { x1: scale(v), x2: scale(v), y1: y - 4, y2: y + 4, class: `whisker ${verdict}` });
  return picture(width, height, label,
    band || null,
    svg("line", { x1: scale(1), x2: scale(1), y1: 0, y2: height, class: "one" }),
    bounds && svg("line", { x1: from, x2: to, y1: y, y2: y, class: `whisker ${verdict}` }),
    end(e.low), end(e.high),
    e.estimate !== undefined && svg("circle", { cx: scale(e.estimate), cy: y, r: 4, class: `dot ${verdict}` }));
}

/** A place on the axis of ratios: a factor, or a change where all are small. */
export function ratioLabel(scale: Scale, v: number): string {
  return v === 1 ? "1" : scale.high > 2.2 ? `${v}×` : `${v > 1 ? "+" : "−"}${Math.abs(Math.round(1000 * (v - 1)) / 10)}%`;
}

/** The axis that stands above intervals of ratios. */
export function ratioAxis(scale: Scale, width: number): SVGSVGElement {
  const label = (v: number) => ratioLabel(scale, v);
  const within = (v: number) => Math.min(width - labelWidth(label(v)) / 2, Math.max(labelWidth(label(v)) / 2, scale(v)));
  return svg("svg", { viewBox: `0 0 ${width} 16`, width, height: 16, class: "picture axis", "aria-hidden": "true" },
    fitting(ratioSeries(scale.low, scale.high), within, label).map((v) => svg("text", { x: within(v), y: 12, "text-anchor": "middle" }, label(v))));
}

/** A figure with its interval next to those of others, from zero, and its trials as dots. */
export function figureInterval(e: Estimate, most: number, width: number, label: string): SVGSVGElement {
  const scale = linear(0, most, 1, width - 3);
  const y = 8;
  return picture(width, 16, label,
    svg("line", { x1: 1, x2: width - 2, y1: 15, y2: 15, class: "rule" }),
    (e.values ?? []).map((v) => svg("circle", { cx: scale(v), cy: y, r: 2.2, class: "raw" })),
    e.low !== undefined && e.high !== undefined && svg("line", { x1: scale(e.low), x2: Math.min(width - 1, scale(e.high)), y1: y, y2: y, class: "whisker" }),
    e.estimate !== undefined && svg("line", { x1: scale(e.estimate), x2: scale(e.estimate), y1: 2, y2: 14, class: "mark" }));
}

/** A bar with its interval, for tables in which columns are compared by eye. */
export function bar(e: Estimate, most: number, width: number): SVGSVGElement {
  const scale = linear(0, most, 0, width - 1);
  return svg("svg", { viewBox: `0 0 ${width} 8`, width, height: 8, class: "picture", "aria-hidden": "true" },
    e.estimate !== undefined && svg("rect", { x: 0, y: 1, width: Math.max(1, scale(e.estimate)), height: 6, class: "fill" }),
    e.low !== undefined && e.high !== undefined && svg("line", { x1: scale(e.low), x2: Math.min(width - 1, scale(e.high)), y1: 4, y2: 4, class: "whisker" }));
}

/** A difference with its interval, around zero. */
export function differenceInterval(e: Estimate, most: number, width: number, u: Unit, strong: boolean): SVGSVGElement {
  const scale = linear(-most, most, 4, width - 4);
  const clamp = (v: number) => Math.min(width - 2, Math.max(2, scale(v)));
  const good = strong ? ((e.estimate ?? 0) < 0 ? "better" : "worse") : "";
  return svg("svg", { viewBox: `0 0 ${width} 16`, width, height: 16, class: "picture", "aria-hidden": "true" },
    svg("title", {}, `± ${tick(u, most)}`),
    svg("line", { x1: scale(0), x2: scale(0), y1: 0, y2: 16, class: "one" }),
    e.low !== undefined && e.high !== undefined && svg("line", { x1: clamp(e.low), x2: clamp(e.high), y1: 8, y2: 8, class: `whisker ${good}` }),
    e.estimate !== undefined && svg("circle", { cx: clamp(e.estimate), cy: 8, r: 3.5, class: `dot ${good}` }));
}
