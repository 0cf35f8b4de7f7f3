import { svg, picture } from "../dom";
import type { Estimate, Step } from "../document";
import { change, factor } from "../format";
import { fitting, linear, linearSeries, logarithmic, logSeries } from "./scale";

export interface Rung {
  name: string;
  from: number; // ratios to the first step
  to: number;
  low?: number; // of the step's own effect, on top of the one before
  high?: number;
  effect?: Estimate;
  verdict: string;
}

/** The ladder's steps as ratios to the first: each begins where the one before ended. A step
 * of which a ratio is not identified has no rung, and the next begins where its own ratios
 * have it. */
export function rungs(steps: Step[]): Rung[] {
  const list: Rung[] = [];
  let before: number | undefined = 1; // unknown after a step whose total is not identified
  steps.forEach((s, i) => {
    const effect = s.verdict === "invalid" ? undefined : i === 0 ? 1 : (s.marginal?.estimate ?? 1);
    const total = s.total_verdict === "invalid" ? undefined : i === 0 ? 1
      : (s.total?.estimate ?? (before !== undefined && effect !== undefined ? before * effect : undefined));
    if (effect !== undefined && total !== undefined) {
      const from: number = before ?? total / effect;
      const r: Rung = { name: s.variant, from, to: total, verdict: s.verdict ?? "" };
      if (i > 0) {
        if (s.marginal) r.effect = s.marginal;
        if (s.marginal?.low !== undefined) r.low = from * s.marginal.low;
        if (s.marginal?.high !== undefined) r.high = from * s.marginal.high;
      }
      list.push(r);
    }
    before = total;
  });
  return list;
}

const row = 34, top = 8, foot = 26;

/** How far beyond the bars an interval is drawn, so that a very wide one leaves them
 * their widths. */
const beyond = 3;

/** Steps from top to bottom, ratios from left to right. */
export function waterfall(steps: Step[], width: number, label: string): SVGSVGElement {
  const list = rungs(steps);
  const names = Math.min(220, 14 + 7.2 * Math.max(...list.map((r) => r.name.length)));
  const texts = width > 560 ? 170 : 0;
  const bars = list.flatMap((r) => [r.from, r.to]).filter((v) => v > 0);
  const least = Math.min(...bars), most = Math.max(...bars);
  const low = Math.max(least / beyond, Math.min(least, ...list.map((r) => r.low ?? r.to)));
  const high = Math.min(most * beyond, Math.max(most, ...list.map((r) => r.high ?? r.to)));
  const log = high / low > 3;
  const right = width - texts - 12;
  const span = high - low || 0.1;
  const x = log ? logarithmic(low / 1.15, high * 1.15, names, right) : linear(Math.max(0, low - 0.12 * span), high + 0.12 * span, names, right);
  const height = top + row * list.length + foot;
  const tick = (v: number) => `${Number(v.toPrecision(4))}×`;
  const marks = fitting(log ? logSeries(x.low, x.high) : linearSeries(x.low, x.high, 5), x, tick);
  const within = (v: number) => x(Math.min(x.high, Math.max(x.low, v)));
  return picture(width, height, label,
    marks.map((v) => [
      svg("line", { x1: x(v), x2: x(v), y1: top, y2: height - foot, class: v === 1 ? "one" : "grid" }),
      svg("text", { x: x(v), y: height - 8, "text-anchor": "middle", class: "tick" }, tick(v)),
    ]),
    list.map((r, i) => {
      const y = top + row * i, middle = y + row / 2;
      const a = x(Math.min(r.from, r.to)), b = x(Math.max(r.from, r.to));
      const next = list[i + 1];
      return [
        svg("text", { x: 0, y: middle + 4, class: "name" }, r.name.length > 28 ? `${r.name.slice(0, 27)}…` : r.name),
        svg("rect", { x: i === 0 ? x(1) - 2 : a, y: y + 7, width: i === 0 ? 4 : Math.max(2, b - a), height: row - 14, class: `step ${i === 0 ? "first" : r.verdict}` }),
        r.low !== undefined && r.high !== undefined && svg("line", { x1: within(r.low), x2: within(r.high), y1: middle, y2: middle, class: "whisker" }),
        next?.from === r.to && svg("line", { x1: x(r.to), x2: x(r.to), y1: y + row - 7, y2: y + row + 7, class: "link" }),
        texts > 0 && svg("text", { x: width - texts, y: middle + 4, class: `value ${r.verdict}` }, i === 0 ? factor(1) : ({ better: "▲ ", worse: "▼ " }[r.verdict] ?? "") + change(r.effect)),
      ];
    }));
}
