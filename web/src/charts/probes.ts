import { svg, picture } from "../dom";
import type { Estimate, SLO, Trial } from "../document";
import { rates, tick, times } from "../format";
import { colourOf } from "./colours";
import { fitting, linear, linearSeries, logarithmic, logTicks } from "./scale";

export interface Probes {
  capacities: { variant: string; rate: Estimate }[];
  trials: Trial[]; // probes with a latency
  slo: SLO;
  order: (variant: string) => number; // its colour
  label: string;
  limit: string; // what the line of the limit is called
  x: string;
}

const left = 64, right = 14, top = 12, foot = 42;

/** Latency over the rates that were tried, with the limit. */
export function probes(p: Probes, width: number): SVGSVGElement {
  const height = Math.round(Math.min(380, Math.max(260, width * 0.42)));
  const latencies = p.trials.map((t) => t.latency_seconds!).filter((v) => v > 0);
  const ends = p.capacities.map((c) => c.rate.estimate ?? 0);
  const x = linear(0, Math.max(...p.trials.map((t) => t.rate_per_second!), ...ends) * 1.05, left, width - right);
  const y = logarithmic(Math.min(...latencies, p.slo.limit_seconds) / 1.5, Math.max(...latencies, p.slo.limit_seconds) * 1.8, height - foot, top);
  const at = y(p.slo.limit_seconds), bottom = height - foot;
  const within = (v: number) => Math.min(width - right, x(v));
  return picture(width, height, p.label,
    logTicks(y.low, y.high).map((v) => [
      svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "tick" }, tick(times, v)),
    ]),
    fitting(linearSeries(x.low, x.high, 6), x, (v) => tick(rates, v)).map((v) => svg("text", { x: x(v), y: bottom + 17, "text-anchor": "middle", class: "tick" }, tick(rates, v))),
    svg("line", { x1: left, x2: width - right, y1: bottom, y2: bottom, class: "one" }),
    svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, p.x),
    p.capacities.map((c) => {
      const { estimate, low, high } = c.rate, stroke = colourOf(p.order(c.variant));
      return [
        low !== undefined && high !== undefined && svg("rect", { x: within(low), width: Math.max(1, within(high) - within(low)), y: top, height: bottom - top, class: "band" }),
        estimate !== undefined && svg("line", { x1: x(estimate), x2: x(estimate), y1: top, y2: bottom, stroke, "stroke-width": 2 }),
      ];
    }),
    svg("line", { x1: left, x2: width - right, y1: at, y2: at, class: "slo-line" }),
    p.capacities.map((c) => {
      const colour = colourOf(p.order(c.variant));
      const own = p.trials.filter((t) => t.variant === c.variant).sort((a, b) => a.rate_per_second! - b.rate_per_second!);
      const kept = own.filter((t) => t.good !== undefined); // nothing disturbed them
      return [
        svg("polyline", { points: kept.map((t) => `${x(t.rate_per_second!).toFixed(1)},${y(t.latency_seconds!).toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.2, opacity: 0.5 }),
        own.map((t) => {
          const cx = x(t.rate_per_second!), cy = y(t.latency_seconds!);
          return t.good ? svg("circle", { cx, cy, r: 4, fill: colour })
            : t.good === undefined ? svg("circle", { cx, cy, r: 3.5, class: "open" })
            : svg("path", { d: `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8`, stroke: colour, "stroke-width": 2, fill: "none" });
        }),
      ];
    }),
    svg("text", { x: width - right, y: at - 6, "text-anchor": "end", class: "slo" }, p.limit));
}
