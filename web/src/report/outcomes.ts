import { details, h, table, type Child } from "../dom";
import type { Claim, Message, Threshold } from "../document";
import { between, command, delta, figure, ranges, shares, sizes, unitNamed, write } from "../format";
import type { Key } from "../i18n";
import { estimateOf, type Context } from "./context";
import { others, said, spoken } from "./say";

interface Decided { measured?: number; low?: number; high?: number; not_identified?: Message }

/** What a threshold or claim measured, in the unit of its expression. */
export function measured(c: Context, text: string, x: Decided): string {
  if (x.measured === undefined) return "–";
  const name = c.doc.units?.[text] ?? "";
  const mark = x.not_identified === undefined ? "" : "?";
  const exact = mark !== "" || (x.low === undefined && x.high === undefined) || (x.low === x.measured && x.high === x.measured);
  if (name === "share/s") return growth(c, exact ? { estimate: x.measured } : { ...x, estimate: x.measured }, mostSpan) + mark;
  const u = unitNamed(name);
  return exact ? write(u, x.measured) + mark : `${write(u, x.measured)} (${between(x.low, x.high, (v) => write(u, v))})`;
}

function outcome(c: Context, name: string): HTMLElement {
  const kind: Record<string, string> = { ok: "good", "kept as measured": "warn", holds: "good", broken: "bad", refuted: "bad", inconclusive: "warn", "not settled": "warn", agrees: "good", larger: "warn", smaller: "warn" };
  return h("span", { class: `badge ${kind[name] ?? ""}` }, c.t.maybe(`outcome.${name}`, name));
}

export function thresholds(c: Context): Child[] {
  const { t } = c;
  const list = c.doc.run.thresholds ?? [];
  if (list.length === 0) return [];
  const rows: Child[][] = [];
  const texts = [...new Set(list.map((x) => x.text))];
  for (const text of texts) {
    const same = list.filter((x) => x.text === text);
    if (same.length > 3 && same.every((x) => x.ok)) rows.push([h("code", {}, text), t("allVariants", { n: same.length }), span(c, same), outcome(c, "ok"), ""]);
    else for (const x of same) rows.push([h("code", {}, text), x.variant ?? "", measured(c, text, x), outcome(c, x.outcome), said(t, x.detail)]);
  }
  return [table(t("section.thresholds"), [{ head: t("threshold") }, { head: t("col.variant"), left: true }, { head: t("measured") }, { head: t("outcome"), left: true }, { head: "", left: true }], rows)];
}

function span(c: Context, list: Threshold[]): string {
  const sorted = [...list].sort((a, b) => (a.measured ?? 0) - (b.measured ?? 0));
  const first = measured(c, sorted[0]!.text, sorted[0]!), last = measured(c, sorted.at(-1)!.text, sorted.at(-1)!);
  return first === last ? first : `${first} … ${last}`;
}

export function claims(c: Context): Child[] {
  const { t } = c;
  const list = c.doc.run.claims ?? [];
  if (list.length === 0) return [];
  const sizes = list.some((x) => x.published);
  return [table(t("section.claims"), [{ head: "" }, { head: t("claim"), left: true }, ...(sizes ? [{ head: t("published") }] : []), { head: t("measured") }, { head: t("outcome"), left: true }],
    list.map((x) => [x.id, [h("span", { "data-own": true }, x.says, expression(x) && h("code", { class: "below" }, expression(x))), reason(c, x)], ...(sizes ? [h("span", { "data-own": true }, x.published ?? "")] : []), measured(c, expression(x), x), outcome(c, x.outcome)]))];
}

/** What is decided by: a condition, or what is held against the published size. */
const expression = (x: Claim) => x.measures ?? x.holds ?? "";

/** Why a claim came out as it did. That it cannot be tested, its author says. */
function reason(c: Context, x: Claim): Child {
  if (!x.detail) return null;
  return x.outcome === "not testable here" ? h("small", { class: "below", "data-own": true }, said(c.t, x.detail)) : h("small", { class: "below" }, said(c.t, x.detail));
}

/** The time, in seconds, of which it is told what grows in it. */
const mostSpan = 1800;

/** What a slope, in shares per second, comes to in a time. */
function growth(c: Context, slope: { estimate?: number; low?: number; high?: number }, seconds: number): string {
  const scaled: Record<string, number> = {};
  for (const k of ["estimate", "low", "high"] as const) {
    const v = slope[k];
    if (v !== undefined) scaled[k] = v * seconds;
  }
  return c.t("figure.growth", { growth: delta(shares, scaled), time: seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s` });
}

/** How gauges of the target grew during a soak. */
export function trends(c: Context): Child[] {
  const { t } = c;
  const list = c.doc.run.trends ?? [];
  if (list.length === 0) return [];
  // What comes after the window may be another slope.
  const span = (variant: string) => Math.min(mostSpan, c.doc.run.plan.variants?.find((v) => v.name === variant)?.window_seconds || mostSpan);
  return [table(t("section.trends"), [{ head: t("col.variant") }, { head: t("col.metric"), left: true }, { head: t("trend.slope") }, { head: t("col.p") }], list.map((x) => {
    const e = x.slope_per_second;
    return [x.variant, [t.maybe(`gauge.${x.metric}`, x.metric), x.detail && h("small", { class: "below" }, said(t, x.detail))], e.estimate === undefined ? "–" : growth(c, e, span(x.variant)), x.p === undefined ? "–" : figure(x.p)];
  }))];
}

/** What was not measured, and why. */
export function missing(c: Context): Child[] {
  const { t } = c;
  const untestable = (c.doc.run.claims ?? []).filter((x) => x.outcome === "not testable here");
  const list = (items: Child[][]): Child => items.length > 0 && h("ul", {}, items.map((x) => h("li", {}, x)));
  const words = [...(c.doc.unavailable ?? []).map((what) => [t("missing.observed"), " ", spoken(t, what)]), ...(c.doc.unreadable ?? []).map((what) => [t("missing.file"), " ", others(t, what)])];
  return [
    list(untestable.map((x) => [t("missing.claim", { id: x.id }), " ", h("span", { "data-own": true }, said(t, x.detail))])),
    list(words.slice(0, 12)), words.length > 12 && details(t("n.more", { n: words.length - 12 }), list(words.slice(12))),
  ].filter(Boolean);
}

function terms(rows: [string, Child][]): HTMLElement {
  return h("dl", {}, rows.filter(([, v]) => v !== "" && v !== undefined && v !== null).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

export function environment(c: Context): Child[] {
  const { t } = c;
  const { run } = c.doc;
  const e = run.environment;
  const on = (list: number[] | undefined) => (list?.length ? t("env.onCpu", { list: ranges(list) }) : t("env.notPlaced"));
  const started = new Date(run.started_at), finished = run.finished_at ? new Date(run.finished_at) : undefined;
  const locale = t.language === "zh" ? "zh-CN" : "en-GB";
  const shown = (d: Date) => (Number.isNaN(d.getTime()) ? "" : `${d.toLocaleString(locale, { timeZone: "UTC", dateStyle: "medium", timeStyle: "medium" })} UTC`);
  return [terms([
    [t("env.system"), [e.os, e.kernel, e.arch].filter(Boolean).join(" ")],
    [t("env.cpu"), `${e.cpu_model ? `${e.cpu_model}, ` : ""}${t.plural("n.cpus", e.cpus)}`],
    [t("env.memory"), e.memory_bytes === undefined ? "" : write(sizes, e.memory_bytes)],
    [t("env.machine"), e.virtualization ?? ""],
    [t("env.clock"), e.clock_source ?? ""],
    [t("env.governor"), e.cpu_governor ?? ""],
    [t("env.target"), on(e.target_cpus)],
    [t("env.generator"), run.plan.protocol === "program" ? "" : on(e.generator_cpus)],
    [t("env.awake"), e.awake_cpus?.length ? t("env.onCpu", { list: ranges(e.awake_cpus) }) : ""],
    [t("env.settings"), Object.entries(e.sysctls_set ?? {}).map(([k, v]) => `${k}=${v}`).join(", ")],
    [t("env.version"), [run.dyno_version, e.go_version].filter(Boolean).join(", ")],
    [t("env.started"), shown(started)],
    [t("env.lasted"), finished && !Number.isNaN(finished.getTime()) ? duration(Number(finished) - Number(started)) : ""],
  ])];
}

function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  const parts = [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60];
  return parts.map((v) => String(v).padStart(2, "0")).join(":");
}

export function reproduce(c: Context): Child[] {
  const { t } = c;
  const { run } = c.doc;
  if (!run.command_line?.length) return [];
  return [
    h("pre", { tabindex: 0, "aria-label": t("repro.command") }, h("code", {}, command(run.command_line))),
    terms([
      [t("repro.seed"), String(run.plan.seed)], [t("repro.file"), run.plan.file ?? ""],
      [t("repro.set"), Object.entries(run.plan.set ?? {}).map(([k, v]) => `${k}=${v}`).join(", ")],
    ]),
    run.plan.source && details(t("repro.text"), h("pre", { tabindex: 0, "aria-label": t("repro.text") }, h("code", {}, run.plan.source))),
  ];
}

/** What the intervals are, and what else a reader should know. */
export function notes(c: Context): Child[] {
  const { t } = c;
  const { run } = c.doc;
  const methods = new Map<number, Set<string>>();
  const used = [...(run.comparisons ?? []).map((x) => x.ratio), ...(run.variants ?? []).flatMap((v) => ["throughput", "capacity"].flatMap((m) => estimateOf(v, m) ?? []))];
  for (const e of used) {
    if (!e.interval || e.interval === "none claimed" || !e.confidence) continue;
    const percent = Number((100 * e.confidence).toPrecision(3));
    methods.set(percent, (methods.get(percent) ?? new Set()).add(e.interval));
  }
  const lines: Child[] = [...methods].map(([confidence, names]) => h("li", {}, t("notes.intervals", { confidence, methods: [...names].map((n) => t(method[n] ?? "method.other")).join("; ") })));
  if (run.stopped) lines.push(h("li", {}, t("stopped", { made: run.rounds, planned: run.plan.rounds }), " ", said(t, run.stopped)));
  (run.notes ?? []).forEach((n) => lines.push(h("li", {}, said(t, n))));
  return lines.length > 0 ? [h("ul", {}, lines)] : [];
}

/** What the methods of intervals are called: see the constants in rundir. */
const method: Record<string, Key> = {
  "Student's t over trials": "method.student", "Student's t over the rounds' log ratios": "method.paired", "Student's t over the rounds' differences": "method.pairs",
  "Hodges-Lehmann, signed ranks over rounds": "method.hodges", "test of the share above, of the merged histogram": "method.share",
  "every round was lost: nothing was answered": "method.lost", "Student's t over trials, not on logarithms: a trial has a zero": "method.zero",
  "Welch's t over trials, unpaired": "method.welch", "Theil-Sen, widened for dependence": "method.theil", "bootstrap over rounds": "method.bootstrap",
  "Student's t over trials, on logits": "method.logit", "Clopper-Pearson, of none or of all": "method.none",
};
