import { fitted, h, table, type Child, type Title } from "../dom";
import type { Comparison, Estimate } from "../document";
import { bounded, change, detectable, margin, probability, spread } from "../format";
import { ratioAxis, ratioInterval, ratioScale } from "../charts/intervals";
import { forest } from "../charts/forest";
import { waterfall } from "../charts/waterfall";
import type { Key } from "../i18n";
import { figureOf, pOf, written, type Context } from "./context";
import { paragraph } from "./say";

const drawn = 240;

interface Family {
  title: string;
  base: string; // empty: each has its own
  list: Comparison[];
}

const ofRole: Record<string, Key> = { step: "comparison.steps", pair: "comparison.pairs" };

/** The comparisons by what they are with. A control stands next to those with its base. */
function families(c: Context): Family[] {
  const { t } = c;
  const all = new Map<string, Family>();
  for (const x of c.doc.run.comparisons ?? []) {
    const common = !x.role || x.role === "control";
    const id = common ? `with ${x.base}` : x.role!;
    const title = common ? t("comparison.with", { base: x.base }) : t(ofRole[x.role!] ?? "comparison.leftOut");
    const f = all.get(id) ?? { title, base: common ? x.base : "", list: [] };
    f.list.push(x);
    all.set(id, f);
  }
  return [...all.values()];
}

const controlAlone = (f: Family) => f.list.every((x) => x.role === "control");

/** All comparisons: a table for each base, in which each metric is a group. What is only
 * a variant with itself is no comparison, but part of what the control found. */
export function comparisons(c: Context): Child[] {
  const shown = families(c).filter((f) => !controlAlone(f));
  return shown.length === 0 ? [] : [overview(c, shown.flatMap((f) => f.list)), ...shown.map((f) => [h("h3", {}, f.title), family(c, f, c.t("section.comparison"))]), notes(c, shown.flatMap((f) => f.list))];
}

const mostEffects = 12;

/** The effects at a glance: of the primary metric first, then what is worse or better. */
function overview(c: Context, all: Comparison[]): Child {
  const { t } = c;
  const within = c.doc.run.plan.margin ?? 0;
  const rank = (x: Comparison) => (x.primary ? 0 : x.verdict === "worse" ? 1 : x.verdict === "better" ? 2 : 3);
  const list = all.filter((x) => x.role !== "control" && x.role !== "pair" && x.ratio.estimate !== undefined).sort((a, b) => rank(a) - rank(b)).slice(0, mostEffects);
  if (list.length === 0) return null;
  const pairs = new Set(list.map((x) => `${x.variant} / ${x.base}`));
  const effects = list.map((x) => ({
    name: (pairs.size > 1 ? `${x.variant} / ${x.base}: ` : "") + t.metric(x.metric), ratio: x.ratio, verdict: x.verdict ?? "",
    value: `${sign(x.verdict ?? "")}${name(c, x.verdict || "inconclusive")} ${x.verdict === "invalid" ? doubted(x.ratio) : change({ ...(x.ratio.estimate === undefined ? {} : { estimate: x.ratio.estimate }) })}`,
  }));
  return [
    h("p", { class: "hint" }, t("comparison.overview", { pair: [...pairs].join(", ") })),
    fitted((width) => forest(effects, within, width, t("comparison.overviewLabel"))),
  ];
}

/** The tables of controls whose base is compared with nothing else. */
export function controls(c: Context): Child[] {
  const alone = families(c).filter(controlAlone);
  return alone.length === 0 ? [] : [...alone.map((f) => family(c, f, c.t("section.control"))), notes(c, alone.flatMap((f) => f.list))];
}

function notes(c: Context, list: Comparison[]): Child[] {
  const { t } = c;
  const lines: Child[] = [h("p", { class: "hint" }, paragraph(t, t("comparison.hint", { margin: margin(c.doc.run.plan.margin ?? 0) }), t("comparison.detectable")))];
  const methods = new Set(list.filter((x) => x.adjusted_p !== undefined).map((x) => x.adjustment || "–"));
  if (methods.size > 0) lines.push(h("p", { class: "hint" }, t("comparison.adjusted", { method: [...methods].join("; ") })));
  for (const x of list) {
    if (x.all_rounds) lines.push(h("p", { class: "hint" }, t("comparison.allRounds", { metric: t.metric(x.metric), variant: x.variant, base: x.base, change: change(x.all_rounds) })));
  }
  return lines;
}

function family(c: Context, { list, base }: Family, label: string): HTMLElement {
  const { t } = c;
  const within = c.doc.run.plan.margin ?? 0;
  const metrics = [...new Set([...list.filter((x) => x.primary), ...list].map((x) => x.metric))];
  const rows: (Child[] | Title)[] = [];
  for (const m of metrics) {
    const own = list.filter((x) => x.metric === m);
    const scale = ratioScale(own.map((x) => x.ratio), within, drawn);
    rows.push({ title: [h("span", { title: m }, t.metric(m)), "", "", ratioAxis(scale, drawn), "", "", "", ""] });
    for (const x of own) {
      rows.push([
        base ? x.variant : `${x.variant} / ${x.base}`,
        paired(c, x, x.base, x.base_figure),
        paired(c, x, x.variant, x.figure),
        ratioInterval(x.ratio, scale, within, drawn, t("comparison.drawn", { variant: x.variant, change: x.verdict === "invalid" ? doubted(x.ratio) : change(x.ratio) }), x.verdict ?? ""),
        shown(x.ratio, x.verdict ?? "", x.equivalence, within),
        probability(pOf(x)),
        verdict(c, x.verdict || "inconclusive", x.role === "control" && bounded(x.ratio)),
        detectable(x.detectable),
      ]);
    }
  }
  return table(label, [
    { head: t("col.variant") }, { head: base || t("base") }, { head: t("col.figure") }, { head: t("col.drawn"), left: true }, { head: t("col.change"), left: true, whole: true },
    { head: t("col.p") }, { head: t("col.verdict"), left: true }, { head: t("col.detectable") },
  ], rows);
}

/** A figure of the comparison's own rounds, whose ratio is its change; of all trials if a round was lost. */
function paired(c: Context, x: Comparison, variant: string, figure: number | undefined): Child {
  return written(c, variant, x.metric, figure === undefined ? figureOf(c, variant, x.metric) : { estimate: figure });
}

/** A change that cannot be relied on. */
export function doubted(e: Estimate): string {
  return e.estimate === undefined ? "–" : `${change({ estimate: e.estimate })}?`;
}

/** A change as its verdict lets it be said: ~ where no difference is shown, = where it
 * is shown that there is none that matters, and ? where the ratio is not identified. */
export function shown(e: Estimate, verdict: string, equivalence: Estimate | undefined, within: number): string {
  if (verdict === "invalid") return doubted(e);
  if (verdict === "equivalent") return `= ±${margin(within)} ${spread(equivalence ?? e)}`;
  if (verdict === "inconclusive" || verdict === "") {
    return e.low === undefined && e.high === undefined && (e.values?.length ?? 0) < 2 ? "~" : `~ ${change(e)}`;
  }
  return change(e);
}

export function verdict(c: Context, verdict: string, isControl = false): HTMLElement {
  const found = isControl && verdict === "inconclusive" ? "none found" : verdict;
  return h("span", { class: `verdict ${found.replace(" ", "-")}` }, sign(found), name(c, found));
}

/** What tells verdicts apart without their colours. */
export function sign(verdict: string): string {
  return ({ better: "▲ ", worse: "▼ ", equivalent: "= " } as Record<string, string>)[verdict] ?? "";
}

function name(c: Context, verdict: string): string {
  return verdict === "invalid" ? c.t("verdict.none") : c.t.maybe(verdict, verdict);
}

/** The ladder as a waterfall, and as a table. */
export function ladder(c: Context): Child[] {
  const { t } = c;
  const steps = c.doc.run.ladder ?? [];
  if (steps.length === 0) return [];
  const metric = c.doc.run.plan.metric || "throughput";
  const within = c.doc.run.plan.margin ?? 0;
  const leftOut = steps.some((s) => s.left_out);
  const cell = (e: Estimate | undefined, v: string | undefined) => (e ? [shown(e, v ?? "", undefined, within), " ", verdict(c, v || "inconclusive")] : "");
  const label = t("ladder.label", { metric: t.metric(metric) });
  return [
    h("p", {}, label),
    fitted((width) => waterfall(steps, width, label)),
    h("p", { class: "hint" }, t("ladder.hint")),
    table(t("section.ladder"), [
      { head: t("ladder.step") }, { head: t.metric(metric) }, { head: t("ladder.marginal"), left: true, whole: true }, { head: t("ladder.total"), left: true, whole: true },
      ...(leftOut ? [{ head: t("ladder.leftOut"), left: true, whole: true }] : []),
    ], steps.map((s) => [
      s.variant, written(c, s.variant, metric, figureOf(c, s.variant, metric)), cell(s.marginal, s.verdict), cell(s.total, s.total_verdict),
      ...(leftOut ? [cell(s.left_out, s.left_out_verdict)] : []),
    ])),
  ];
}
