import { h, svg, picture } from "../dom";
import { perDecade, type Curve, type Numbers } from "../document";
import { tick, times, write } from "../format";
import { colourOf, dashOf } from "./colours";
import { apart, linear, logarithmic, logTicks } from "./scale";

/** How a point of a curve is called: 0, 50, 99.9. */
export function percentileAt(i: number): string {
  const beyond = 10 ** (-i / perDecade);
  const decimals = Math.max(0, Math.ceil(i / perDecade) - 1) + (i % perDecade === 0 ? -1 : 0);
  return (100 * (1 - beyond)).toFixed(Math.max(0, Math.min(8, decimals)));
}

const left = 64, right = 14, top = 10, foot = 40;

interface Curves {
  curves: Curve[];
  order: (variant: string) => number; // its colour
  label: string;
  axis: string;
  read: (percentile: string) => string;
  keys: string;
}

/** Latency by percentile: the merged curves strong, those of trials faint. */
export function percentiles(c: Curves, width: number): HTMLElement {
  const height = Math.round(Math.min(330, Math.max(260, width * 0.4)));
  const values = c.curves.flatMap((x) => x.values).filter((v): v is number => v !== null && v > 0);
  const longest = Math.max(2, ...c.curves.map((x) => x.values.length));
  const x = linear(0, longest - 1, left, width - right);
  const y = logarithmic(Math.min(...values) / 1.1, Math.max(...values) * 1.1, height - foot, top);
  const path = (list: Numbers, from: number, to: number) => list.slice(from, to).map((v, i) => (v === null ? "" : `${i === 0 ? "M" : "L"}${x(from + i).toFixed(1)} ${y(v).toFixed(1)}`)).join("");
  const merged = c.curves.filter((v) => !v.trial);
  const lines = [...c.curves.filter((v) => v.trial), ...merged].map((v) => {
    const i = c.order(v.variant);
    const style = { class: v.trial ? "curve raw" : "curve", stroke: colourOf(i), "stroke-dasharray": dashOf(i) };
    return [
      svg("path", { ...style, d: path(v.values, 0, Math.max(1, v.firm)) }),
      !v.trial && v.firm > 0 && v.firm < v.values.length && svg("path", { ...style, "stroke-dasharray": "1 4", d: path(v.values, v.firm - 1, v.values.length) }),
    ];
  });
  const nines: number[] = [];
  for (let i = 0; i < longest; i += perDecade) nines.push(i);
  const half = perDecade * Math.log10(2); // the median's place
  const places = [...nines, half].sort((a, b) => a - b);
  const called = (i: number) => (i === half ? "50" : i === 0 ? "0" : percentileAt(i));
  const named = apart(places, x, called);
  const cross = svg("line", { y1: top, y2: height - foot, class: "cross", visibility: "hidden" });
  const readout = h("output", { class: "readout", "aria-live": "polite" }, c.keys);
  const image = picture(width, height, c.label,
    logTicks(y.low, y.high).map((v) => [
      svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "tick" }, tick(times, v)),
    ]),
    places.map((i) => [
      svg("line", { x1: x(i), x2: x(i), y1: top, y2: height - foot, class: "grid" }),
      named.includes(i) && svg("text", { x: x(i), y: height - foot + 16, "text-anchor": "middle", class: "tick" }, called(i)),
    ]),
    svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "axis" }, c.axis),
    lines, cross);
  let at = 2 * perDecade;
  const show = (i: number) => {
    at = Math.min(longest - 1, Math.max(0, i));
    cross.setAttribute("x1", String(x(at)));
    cross.setAttribute("x2", String(x(at)));
    cross.setAttribute("visibility", "visible");
    readout.replaceChildren(h("b", {}, c.read(percentileAt(at))), ...merged.map((v) =>
      h("span", {}, key(c.order(v.variant)), v.variant, " ", h("b", {}, write(times, v.values[at])))));
  };
  const box = h("div", { class: "interactive", tabindex: 0, role: "group", "aria-label": c.label,
    pointermove: (e) => {
      const r = image.getBoundingClientRect();
      show(Math.round(x.invert((((e as PointerEvent).clientX - r.left) / r.width) * width)));
    },
    keydown: (e) => {
      const step = ({ ArrowRight: 1, ArrowLeft: -1, PageUp: perDecade, PageDown: -perDecade } as Record<string, number>)[(e as KeyboardEvent).key];
      if (step === undefined) return;
      e.preventDefault();
      show(at + step);
    } }, image);
  return h("div", {}, box, readout);
}

/** The little line that says which colour a variant has. */
export function key(i: number): SVGSVGElement {
  return svg("svg", { viewBox: "0 0 22 10", width: 22, height: 10, class: "key", "aria-hidden": "true" },
    svg("line", { x1: 1, x2: 21, y1: 5, y2: 5, stroke: colourOf(i), "stroke-width": 3, "stroke-dasharray": dashOf(i) }));
}
