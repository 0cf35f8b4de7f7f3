import shared from "../../../internal/texts/remedies.json";
import { details, h, table, type Child } from "../dom";
import type { Flag, Validity } from "../document";
import { change, plain, times, unitNamed, unitOf, write } from "../format";
import type { Key, Texts } from "../i18n";
import { controls, doubted } from "./comparison";
import { states } from "./answer";
import type { Context } from "./context";
import { spoken, spokenAll, told } from "./say";

export const remedies = shared as Record<string, Key>;

/** Whether the figures may be trusted: flags, checks, and what the A/A control found. */
export function validity(c: Context): Child[] {
  const { pilot } = c.doc.run;
  const bounds = (v: Validity) => {
    const u = v.base ? plain : unitOf(v.figure);
    const end = (x: number) => write(u, Math.max(0, x));
    if (v.low !== undefined && v.high !== undefined) return `${end(v.low)} … ${end(v.high)}`;
    return v.low !== undefined ? `≥ ${end(v.low)}` : v.high !== undefined ? `≤ ${end(v.high)}` : "";
  };
  return [states(c, c.doc.run.validity ?? [], bounds), flags(c), pilot && h("p", {}, c.t("pilot", { time: write(times, pilot.warmup_seconds) })), control(c), checks(c)];
}

interface Kind {
  first: Flag;
  trials: number[];
}

/** One for each kind, however many trials have it; what spoils first. */
export function kinds(list: Flag[]): Kind[] {
  const all: Kind[] = [];
  for (const f of list) {
    let k = all.find((x) => x.first.kind === f.kind && x.first.spoils === f.spoils && x.first.breaks === f.breaks && f.trial && x.first.trial);
    if (!k) all.push((k = { first: f, trials: [] }));
    if (f.trial) k.trials.push(f.trial);
  }
  const rank = (k: Kind) => (k.first.kind === "control_differs" ? 0 : k.first.breaks ? 1 : k.first.spoils ? 2 : 3);
  return all.sort((a, b) => rank(a) - rank(b));
}

/** How bad a finding is, and its name. */
export function severity(f: Flag): { kind: "bad" | "warn"; key: Key } {
  return f.breaks ? { kind: "bad", key: "flags.broken" } : f.spoils ? { kind: "bad", key: "flags.spoilt" } : { kind: "warn", key: "flags.warning" };
}

export function badge(t: Texts, f: Flag): HTMLElement {
  const { kind, key } = severity(f);
  return h("span", { class: `badge ${kind}` }, t(key));
}

function flags(c: Context): Child {
  const { t } = c;
  const list = kinds(c.doc.run.flags ?? []);
  const reasons = c.doc.incomplete ?? [];
  const parts: Child[] = [];
  if (reasons.length > 0) parts.push(h("p", { class: "alarm" }, h("b", {}, t("incomplete")), " ", reasons.slice(0, 4).map((m, i) => [i > 0 && t("answer.semicolon"), spoken(t, m)]), reasons.length > 4 && ` ${t("n.more", { n: reasons.length - 4 })}`));
  if (list.length === 0) return parts;
  parts.push(table(t("flags"), [
    { head: t("flags.severity") }, { head: t("flags.kind"), left: true }, { head: t("flags.where"), left: true }, { head: t("flags.detail"), left: true }, { head: t("flags.remedy"), left: true },
  ], list.map(({ first, trials }) => {
    const where = trials.length > 1 ? t("flags.trials", { n: trials.length, list: trials.slice(0, 6).join(" ") + (trials.length > 6 ? " …" : "") })
      : first.trial ? t("flags.trial", { trial: first.trial, variant: first.variant ?? "" }) : t("flags.run");
    const remedy = remedies[first.kind];
    return [
      badge(t, first),
      t.maybe(`check.${first.kind}`, first.kind), where, told(t, first.detail, first.because), remedy ? t(remedy) : "",
    ];
  })));
  return parts;
}

function control(c: Context): Child {
  const { t } = c;
  const { run } = c.doc;
  const found = (run.comparisons ?? []).filter((x) => x.role === "control" && x.primary);
  if (found.length === 0 && !run.comparisons?.length) return null;
  const differs = (run.flags ?? []).some((f) => f.kind === "control_differs");
  const lines = found.map((x) => h("p", {}, t("control.line", { base: x.base, variant: x.variant, metric: t.metric(x.metric), change: x.verdict === "invalid" ? doubted(x.ratio) : change(x.ratio), rounds: t.plural("n.rounds", x.rounds) })));
  if (c.doc.answer.sure) lines.push(h("p", { class: differs ? "alarm" : "" }, spokenAll(t, c.doc.answer.sure)));
  return [h("h3", {}, t("section.control")), lines.length > 0 ? lines : h("p", {}, t("control.none")), controls(c)];
}

function checks(c: Context): Child {
  const { t } = c;
  const list = c.doc.checks ?? [];
  if (list.length === 0) return null;
  return details(t("checks"), table(t("checks"), [
    { head: t("checks.kind") }, { head: t("checks.worst") }, { head: t("checks.limit") }, { head: t("checks.outcome"), left: true },
  ], list.map((x) => [
    t.maybe(`check.${x.kind}`, x.kind), write(unitNamed(x.unit ?? "count"), x.worst), write(unitNamed(x.unit ?? "count"), x.limit),
    [
      x.spoilt > 0 && h("span", { class: "badge bad" }, t("checks.spoilt", { n: x.spoilt })), " ",
      x.warning > 0 && h("span", { class: "badge warn" }, t("checks.warning", { n: x.warning })), " ",
      x.ok > 0 && t("checks.ok", { n: x.ok }), " ", x.unknown > 0 && t("checks.unknown", { n: x.unknown }),
    ],
  ])));
}
