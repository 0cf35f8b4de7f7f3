import { svg, picture } from "../dom";
import type { Estimate } from "../document";
import { tick, type Unit } from "../format";
import { colourOf, dashOf } from "./colours";
import { fitting, linear, linearSeries, logarithmic, ticks, type Scale } from "./scale";

export interface Point {
  x: Estimate;
  y: Estimate;
  label?: string;
}

export interface Plot {
  lines: { points: Point[]; order: number }[];
  x: { unit: Unit; name: string; log?: boolean };
  y: { unit: Unit; name: string };
  knee?: number;
  label: string;
}

const left = 70, right = 18, top = 12, foot = 44;

/** Points with their intervals, joined in their order. */
export function scatter(p: Plot, width: number): SVGSVGElement {
  const height = Math.round(Math.min(320, Math.max(230, width * 0.42)));
  const points = p.lines.flatMap((l) => l.points);
  const ends = (of: (q: Point) => Estimate) => points.flatMap((q) => [of(q).estimate, of(q).low, of(q).high]).filter((v): v is number => v !== undefined && Number.isFinite(v));
  const xs = ends((q) => q.x), ys = ends((q) => q.y);
  const middles = points.map((q) => q.y.estimate ?? 0);
  const most = Math.min(Math.max(...ys, 0), 2.5 * Math.max(...middles, 0)); // one open interval does not flatten the rest
  const x: Scale = p.x.log
    ? logarithmic(Math.min(...xs) / 1.15, Math.max(...xs) * 1.15, left, width - right)
    : linear(0, Math.max(...xs, 0) * 1.05 || 1, left, width - right);
  const y = linear(0, most * 1.08 || 1, height - foot, top);
  const levels = [...new Set(points.map((q) => q.x.estimate ?? 0))].sort((a, b) => a - b);
  const marksX = fitting(p.x.log ? [1, 2, 3, 5, 10].map((every) => levels.filter((_, i) => i % every === 0)) : linearSeries(x.low, x.high, 6), x, (v) => tick(p.x.unit, v));
  return picture(width, height, p.label,
    ticks(y.low, y.high, 5).map((v) => [
      svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "tick" }, tick(p.y.unit, v)),
    ]),
    marksX.map((v) => svg("text", { x: x(v), y: height - foot + 18, "text-anchor": "middle", class: "tick" }, tick(p.x.unit, v))),
    svg("line", { x1: left, x2: width - right, y1: y(0), y2: y(0), class: "one" }),
    svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, p.x.name.length > 40 ? `${p.x.name.slice(0, 39)}…` : p.x.name),
    p.knee !== undefined && svg("line", { x1: x(p.knee), x2: x(p.knee), y1: top, y2: y(0), class: "knee" }),
    p.lines.map((l) => {
      let labelled = -Infinity; // where the last label stands: none is written over another
      return [
      svg("polyline", {
        points: l.points.filter((q) => q.x.estimate !== undefined && q.y.estimate !== undefined).map((q) => `${x(q.x.estimate!).toFixed(1)},${y(q.y.estimate!).toFixed(1)}`).join(" "),
        class: "curve", stroke: colourOf(l.order), "stroke-dasharray": dashOf(l.order),
      }),
      l.points.map((q) => {
        if (q.x.estimate === undefined || q.y.estimate === undefined) return null;
        const cx = x(q.x.estimate), cy = y(q.y.estimate), stroke = colourOf(l.order);
        return [
          q.y.low !== undefined && q.y.high !== undefined && svg("line", { x1: cx, x2: cx, y1: y(q.y.low), y2: Math.max(top, y(q.y.high)), stroke, class: "error" }),
          q.x.low !== undefined && q.x.high !== undefined && svg("line", { x1: x(q.x.low), x2: Math.min(width - right, x(q.x.high)), y1: cy, y2: cy, stroke, class: "error" }),
          svg("circle", { cx, cy, r: 4, fill: stroke }),
          q.label && Math.abs(cx - labelled) > 34 && svg("text", { x: (labelled = cx) + 7, y: cy - 6, class: "tick" }, q.label),
        ];
      }),
      ];
    }));
}
