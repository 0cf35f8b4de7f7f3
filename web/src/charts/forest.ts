import { svg, picture } from "../dom";
import type { Estimate } from "../document";
import { fitting, labelWidth, logarithmic, ratioSeries } from "./scale";
import { ratioLabel } from "./intervals";

export interface Effect {
  name: string;
  ratio: Estimate;
  verdict: string;
  value: string; // the change with the sign of its verdict
}

const wide = 640; // from here on, names and values stand next to the lines
const axis = 22;
const farthest = 1000; // a ratio

/** Ratios with their intervals on one axis, the first one's scale. What lies far beyond it is
 * drawn at the edge, as an arrow. */
export function forest(list: Effect[], margin: number, width: number, label: string): SVGSVGElement {
  const inLine = width >= wide;
  const row = inLine ? 28 : 42;
  const from = inLine ? Math.min(300, 16 + Math.max(...list.map((e) => labelWidth(e.name) * 1.25))) : 6;
  const to = inLine ? width - Math.min(280, 16 + Math.max(...list.map((e) => labelWidth(e.value) * 1.25))) : width - 6;
  const distance = (e: Estimate) => Math.max(1, ...[e.estimate, e.low, e.high].flatMap((v) => (v !== undefined && v > 0 ? [v, 1 / v] : [])));
  const known = list.filter((e) => e.verdict !== "invalid").map((e) => distance(e.ratio));
  const first = Math.max(1 + 2 * margin, 1.02, known[0] ?? 1);
  const far = Math.min(farthest, first ** 3, Math.max(first, ...known)) * 1.03;
  const x = logarithmic(1 / far, far, from, to);
  const height = row * list.length + axis;
  const within = (v: number) => Math.min(to, Math.max(from, x(v)));
  const places = fitting(ratioSeries(x.low, x.high), x, (v) => ratioLabel(x, v));
  return picture(width, height, label,
    margin > 0 && svg("rect", { x: within(1 / (1 + margin)), width: within(1 + margin) - within(1 / (1 + margin)), y: 0, height: height - axis, class: "band" }),
    places.map((v) => [
      svg("line", { x1: x(v), x2: x(v), y1: 0, y2: height - axis, class: v === 1 ? "one" : "grid" }),
      svg("text", { x: x(v), y: height - 6, "text-anchor": "middle", class: "tick" }, ratioLabel(x, v)),
    ]),
    list.map((e, i) => {
      const top = row * i, y = inLine ? top + row / 2 : top + 30, text = inLine ? y + 4 : top + 14;
      const { estimate: v, low, high } = e.ratio;
      const isBeyond = v !== undefined && (v < x.low || v > x.high);
      const at = v === undefined ? 0 : within(v), out = v !== undefined && v < 1 ? -1 : 1;
      return [
        svg("text", { x: 0, y: text, class: "name" }, e.name.length > 40 ? `${e.name.slice(0, 39)}…` : e.name),
        (low !== undefined || high !== undefined) && svg("line", { x1: low === undefined ? from : within(low), x2: high === undefined ? to : within(high), y1: y, y2: y, class: `whisker ${e.verdict}` }),
        v !== undefined && (isBeyond ? svg("path", { d: `M${at} ${y}l${-out * 9} -5v10z`, class: `dot ${e.verdict}` }) : svg("circle", { cx: at, cy: y, r: 5, class: `dot ${e.verdict}` })),
        svg("text", { x: width, y: text, "text-anchor": "end", class: `value ${e.verdict}` }, e.value),
      ];
    }));
}
