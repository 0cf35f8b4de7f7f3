// How figures are written: as report/unit.go does, with three significant digits and
// their interval.

import type { Estimate } from "./document";
import { endings, metrics, units, type Unit } from "./names";

export type { Unit };

export const unknown = "–";

type Step = Unit["steps"][number];

export const times: Unit = units.s;
export const sizes: Unit = units.B;
export const sizeRates: Unit = units["B/s"];
export const counts: Unit = units.count;
export const rates: Unit = units["/s"];
export const shares: Unit = units.ratio;
export const plain: Unit = units[""];
export const processors: Unit = units.cpu;

/** The unit of a name in the document. */
export function unitNamed(name: string): Unit {
  return Object.hasOwn(units, name) ? units[name as keyof typeof units] : counts;
}

/** The unit of a metric by its name in expressions. */
export function unitOf(whole: string): Unit {
  const [metric] = splitStep(whole);
  if (Object.hasOwn(metrics, metric)) return units[metrics[metric]!];
  if (Object.hasOwn(metrics, metric.replace(/\.p\d+$/, ".p50"))) return times; // a quantile that others do not have
  const told = endings.find(([beginning, end]) => metric.startsWith(beginning) && metric.endsWith(end));
  return told ? units[told[2]] : counts;
}

/** The name of a step's metric, and that of the step; the step is empty of all requests together. */
export function splitStep(name: string): [metric: string, step: string] {
  const found = /^(.*)\{step=(.+)\}$/.exec(name);
  return found ? [found[1]!, found[2]!] : [name, ""];
}

export const stepMetric = (metric: string, step: string) => `${metric}{step=${step}}`;

/** The name of a quantile as people write it: p99.9 for p999. */
export const quantileName = (name: string) => name.replace(/^p(\d\d)(\d+)$/, "p$1.$2");

/** Three significant digits, without an exponent from 0.001 to 10 million. */
export function figure(v: number): string {
  if (v === 0) return "0";
  const rounded = Number(v.toExponential(2));
  const magnitude = Math.floor(Math.log10(Math.abs(rounded)) + 1e-9);
  if (magnitude < -3 || magnitude > 7) return minus(v.toExponential(2).replace(/\.?0+e/, "e"));
  return minus(rounded.toFixed(Math.max(0, 2 - magnitude)));
}

function minus(text: string): string {
  return text.replace("-", "−");
}

function stepOf(u: Unit, v: number): Step {
  let best = u.steps[0]!;
  for (const s of u.steps) if (Math.abs(v) >= s.from * (1 - 0.0005)) best = s;
  return best;
}

export function write(u: Unit, v: number | null | undefined): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return unknown;
  if (v === 0) return u.zero + u.suffix;
  const s = stepOf(u, v);
  return figure(v / s.from) + s.name + u.suffix;
}

/** For axes: without digits that say nothing. */
export function tick(u: Unit, v: number): string {
  if (v === 0) return "0";
  const s = stepOf(u, v);
  return minus(String(Number((v / s.from).toPrecision(3)))) + s.name + u.suffix;
}

export function bounded(e: Estimate): boolean {
  return e.low !== undefined || e.high !== undefined;
}

/** The ends of an interval, or the one that is known. */
export function between(low: number | undefined, high: number | undefined, write: (v: number) => string): string {
  if (low !== undefined && high !== undefined) return `${write(low)} … ${write(high)}`;
  return low !== undefined ? `≥ ${write(low)}` : high !== undefined ? `≤ ${write(high)}` : "";
}

/** The values of trials that are too few for an interval. */
function few(e: Estimate): number[] | undefined {
  return !bounded(e) && e.interval && e.interval !== "none claimed" && (e.values?.length ?? 0) > 1 ? e.values : undefined;
}

/** A figure with its interval: 1.23k ±2%, or with both ends where they are not even. */
export function estimate(u: Unit, e: Estimate | undefined): string {
  if (e?.estimate === undefined) return unknown;
  const v = e.estimate;
  const values = few(e);
  if (values) return `${write(u, v)} (${write(u, Math.min(...values))} … ${write(u, Math.max(...values))})`;
  if (!bounded(e)) return write(u, v);
  if (e.low === v && e.high === v) return `${write(u, v)} ±0%`;
  if (e.low !== undefined && e.high !== undefined && v > 0) {
    const down = 1 - e.low / v, up = e.high / v - 1, wide = Math.max(down, up);
    if (wide < 0.5 && Math.abs(up - down) <= Math.max(0.25 * wide, 0.001)) return `${write(u, v)} ±${margin(wide)}`;
  }
  return `${write(u, v)} ${ends(u, e)}`;
}

/** Whether a figure is a time of a clock, such as response.p99. */
const isClock = (figure: string) => /\.(p\d+|max|mean)(\{|$)/.test(figure) && Object.hasOwn(metrics, figure.replace(/\..*/, ".p50"));

/** How far beyond a figure a bound may lie, as a share: see report/answer.go. */
const slight = 0.1;

/** A figure as it was measured, with the mark that its state gives it: see report/answer.go. */
export function stated(u: Unit, e: Estimate | undefined, state: { figure?: string; base?: string; state: string; low?: number; high?: number; causes?: string[]; too_disturbed?: boolean } | undefined, tooDisturbed: string): string {
  if (e?.estimate === undefined) return unknown;
  if (!state || state.state === "ok") return estimate(u, e);
  const v = e.estimate, text = write(u, v), { low, high } = state;
  const beyond = (value: number, bound: number) => (value === bound ? 0 : bound / value - 1);
  const below = low === undefined ? Infinity : -beyond(e.low ?? v, low);
  const above = high === undefined ? Infinity : beyond(e.high ?? v, high);
  const isTime = isClock(state.figure ?? "") && !state.base && state.state === "bounded" && !state.causes?.includes("agent_clocks");
  if (!isTime && (state.state === "relative_only" || !(Math.min(below, above) <= slight))) return `${text}?`;
  const both = bounded(e) && low !== undefined && high !== undefined;
  return (isTime || above <= below ? "≤" : "≥") + text + (!both ? "" : state.too_disturbed ? ` (${tooDisturbed})` : ` ${ends(u, { estimate: v, low, high })}`);
}

/** The ends of an interval, in the unit of its estimate. */
export function ends(u: Unit, e: Estimate): string {
  const v = e.estimate ?? 0;
  const s = stepOf(u, v === 0 ? (e.high ?? 0) : v);
  return `(${between(e.low, e.high, (x) => figure(x / s.from))})${v === 0 ? s.name + u.suffix : ""}`;
}

/** A share with two significant digits. */
export function margin(share: number): string {
  const p = 100 * Math.abs(share);
  if (p >= 9.95) return `${p.toFixed(0)}%`;
  if (p >= 0.995) return `${p.toFixed(1).replace(/\.0$/, "")}%`;
  return p === 0 ? "0%" : `${Number(p.toPrecision(2))}%`;
}

function signed(v: number, decimals: number): string {
  const text = Math.abs(v).toFixed(decimals);
  if (Number(text) === 0) return text;
  return (v < 0 ? "−" : "+") + text;
}

function decimalsOf(e: Estimate): number {
  if (e.low === undefined || e.high === undefined) return 1;
  const half = 50 * (e.high - e.low);
  return half < 0.2 ? 2 : half >= 20 ? 0 : 1;
}

/** The interval of a ratio as relative changes in percent. */
export function spread(e: Estimate): string {
  const decimals = decimalsOf(e);
  return `(${between(e.low, e.high, (v) => signed(100 * (v - 1), decimals))})`;
}

/** The change from which on percentages are hard to read: it is 4 times as much. */
const mostPercent = 3;

/** Whether a ratio is written as a factor: from 2 on, and where its interval reaches
 * beyond what percentages say well. */
export function isFactor(e: Estimate): boolean {
  const v = e.estimate ?? 1;
  return v >= 2 || v <= 0.5 || (e.high ?? 1) > 1 + mostPercent;
}

/** A ratio as the change that it is, or as a factor, with its interval. */
export function change(e: Estimate | undefined): string {
  if (e?.estimate === undefined) return unknown;
  if (isFactor(e)) return factor(e.estimate) + (factors(e) ? ` (${factors(e)})` : "");
  const values = few(e);
  if (values) return `${signed(100 * (e.estimate - 1), 1)}% (${signed(100 * (Math.min(...values) - 1), 1)} … ${signed(100 * (Math.max(...values) - 1), 1)})`;
  return signed(100 * (e.estimate - 1), decimalsOf(e)) + "%" + (bounded(e) ? ` ${spread(e)}` : "");
}

function bare(v: number): string {
  return Math.abs(v - 1) < 0.2 ? v.toFixed(3) : figure(v);
}

export function factor(v: number): string {
  return `${bare(v)}×`;
}

export function factors(e: Estimate): string {
  const values = few(e);
  return values ? `${bare(Math.min(...values))} … ${bare(Math.max(...values))}` : between(e.low, e.high, bare);
}

/** The smallest change that a comparison finds. */
export function detectable(share: number | undefined): string {
  if (share === undefined) return unknown;
  return share > mostPercent ? `> ${100 * mostPercent}%` : `±${margin(share)}`;
}

export function probability(p: number | undefined): string {
  if (p === undefined) return unknown;
  if (p < 0.0001) return "<0.0001";
  if (p < 0.001) return p.toFixed(4);
  return p < 0.1 ? p.toFixed(3) : p.toFixed(2);
}

/** A difference with its interval, always with a sign. */
export function delta(u: Unit, e: Estimate): string {
  if (e.estimate === undefined) return unknown;
  const sign = (v: number) => (v > 0 ? "+" : v < 0 ? "−" : "");
  if (e.low === undefined || e.high === undefined) return sign(e.estimate) + write(u, Math.abs(e.estimate));
  const s = stepOf(u, Math.max(Math.abs(e.estimate), Math.abs(e.low), Math.abs(e.high)));
  const end = (v: number) => sign(v) + figure(Math.abs(v) / s.from);
  return `${end(e.estimate)}${s.name}${u.suffix} (${end(e.low)} … ${end(e.high)})`;
}

/** A command as one would type it in a shell. */
export function command(args: string[]): string {
  return args.map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** A list of CPUs as ranges. */
export function ranges(list: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < list.length; ) {
    let j = i;
    while (j + 1 < list.length && list[j + 1] === list[j]! + 1) j++;
    parts.push(j > i ? `${list[i]}-${list[j]}` : `${list[i]}`);
    i = j + 1;
  }
  return parts.join(",");
}
