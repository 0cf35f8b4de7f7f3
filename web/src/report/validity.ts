import { finding, h, table, type Child } from "../dom";
import type { Flag, Message, Validity } from "../document";
import { change, plain, times, unitNamed, unitOf, write } from "../format";
import type { Key, Texts } from "../i18n";
import { checks as declared } from "../names";
import { controls, doubted } from "./comparison";
import { states } from "./answer";
import type { Context } from "./context";
import { said, spoken, spokenAll } from "./say";

/** What helps against a flag. */
export const remedy = (t: Texts, kind: string) => {
  const key = declared[kind]?.remedy;
  return key ? t(key) : "";
};

/** Whether the figures may be trusted, each finding in one line: the A/A control, states, flags,
 * checks. */
export function validity(c: Context): Child[] {
  const { pilot } = c.doc.run;
  const bounds = (v: Validity) => {
    const u = v.base ? plain : unitOf(v.figure);
    const end = (x: number) => write(u, Math.max(0, x));
    if (v.low !== undefined && v.high !== undefined) return `${end(v.low)} … ${end(v.high)}`;
    return v.low !== undefined ? `≥ ${end(v.low)}` : v.high !== undefined ? `≤ ${end(v.high)}` : "";
  };
  const { t } = c;
  const { sure, trust, asked, again } = c.doc.answer;
  const each = (list: Message[] | undefined) => (list ?? []).map((m) => h("p", {}, spoken(t, m)));
  const broken = states(c, c.doc.run.validity ?? [], bounds);
  return [
    incomplete(c), control(c, sure),
    (trust || broken) && finding(t("trust"), trust ? spokenAll(t, trust) : t("states"), each(asked), broken),
    flags(c), again && finding(t("again"), spoken(t, again[0]!), each(again.slice(1))),
    pilot && h("p", { class: "finding" }, t("pilot", { time: write(times, pilot.warmup_seconds) })), checks(c),
  ];
}

interface Kind {
  first: Flag;
  trials: number[];
}

/** One for each kind, however many trials have it; what disturbs first. */
export function kinds(list: Flag[]): Kind[] {
  const all: Kind[] = [];
  for (const f of list) {
    let k = all.find((x) => x.first.kind === f.kind && x.first.disturbs === f.disturbs && x.first.breaks === f.breaks && f.trial && x.first.trial);
    if (!k) all.push((k = { first: f, trials: [] }));
    if (f.trial) k.trials.push(f.trial);
  }
  const rank = (k: Kind) => (k.first.kind === "control_differs" ? 0 : k.first.breaks ? 1 : k.first.disturbs ? 2 : 3);
  return all.sort((a, b) => rank(a) - rank(b));
}

/** How bad a finding is, and its name. */
export function severity(f: Flag): { kind: "bad" | "warn"; key: Key } {
  return f.breaks ? { kind: "bad", key: "flags.broken" } : f.disturbs ? { kind: "bad", key: "flags.disturbed" } : { kind: "warn", key: "flags.warning" };
}

export function badge(t: Texts, f: Flag): HTMLElement {
  const { kind, key } = severity(f);
  return h("span", { class: `badge ${kind}` }, t(key));
}

function incomplete(c: Context): Child {
  const { t } = c;
  const reasons = c.doc.incomplete ?? [];
  return reasons.length > 0 && h("p", { class: "alarm" }, h("b", {}, t("incomplete")), " ", reasons.slice(0, 4).map((m, i) => [i > 0 && t("answer.semicolon"), spoken(t, m)]), reasons.length > 4 && ` ${t("n.more", { n: reasons.length - 4 })}`);
}

function flags(c: Context): Child {
  const { t } = c;
  const list = kinds(c.doc.run.flags ?? []);
  if (list.length === 0) return null;
  const name = (f: Flag) => t.check(f.kind);
  return finding(t("flags"), [
    list.slice(0, 3).map(({ first }) => name(first)).join(t("answer.comma")), list.length > 3 && ` ${t("n.more", { n: list.length - 3 })}`, badges(t, list.map(({ first }) => severity(first))),
  ], table(t("flags"), [
    { head: t("flags.severity") }, { head: t("flags.kind"), left: true }, { head: t("flags.where"), left: true }, { head: t("flags.detail"), left: true }, { head: t("flags.remedy"), left: true },
  ], list.map(({ first, trials }) => {
    const where = trials.length > 1 ? t("flags.trials", { n: trials.length, list: trials.slice(0, 6).join(" ") + (trials.length > 6 ? " …" : "") })
      : first.trial ? t("flags.trial", { trial: first.trial, variant: first.variant ?? "" }) : t("flags.run");
    return [badge(t, first), name(first), where, said(t, first.detail), remedy(t, first.kind)];
  })));
}

/** How many findings there are of each severity. */
function badges(t: Texts, list: { kind: string; key: Key }[]): Child {
  return [...new Set(list.map((x) => x.key))].map((key) => {
    const same = list.filter((x) => x.key === key);
    return h("span", { class: `badge ${same[0]!.kind}` }, `${same.length} × ${t(key)}`);
  });
}

function control(c: Context, sure: Message[] | undefined): Child {
  const { t } = c;
  const { run } = c.doc;
  const found = (run.comparisons ?? []).filter((x) => x.role === "control" && x.primary);
  const isCompared = found.length > 0 || (run.comparisons ?? []).length > 0;
  if (!sure && !isCompared) return null;
  const differs = (run.flags ?? []).some((f) => f.kind === "control_differs");
  const lines = found.map((x) => h("p", {}, t("control.line", { base: x.base, variant: x.variant, metric: t.metric(x.metric), change: x.verdict === "invalid" ? doubted(x.ratio) : change(x.ratio), rounds: t.plural("n.rounds", x.rounds) })));
  return finding(t("sure"), [sure ? spokenAll(t, sure) : t("section.control"), differs && h("span", { class: "badge bad" }, t("flags.disturbed"))],
    isCompared && (lines.length > 0 ? lines : h("p", {}, t("control.none"))), controls(c));
}

function checks(c: Context): Child {
  const { t } = c;
  const list = c.doc.checks ?? [];
  if (list.length === 0) return null;
  const ok = list.filter((x) => x.disturbed + x.warning === 0 && x.ok > 0).length;
  const found = list.filter((x) => x.disturbed + x.warning > 0).map((x) => ({ kind: x.disturbed > 0 ? "bad" : "warn", key: (x.disturbed > 0 ? "flags.disturbed" : "flags.warning") as Key }));
  return finding(t("checks"), [t("checks.sum", { ok, n: list.length }), badges(t, found)], table(t("checks"), [
    { head: t("checks.kind") }, { head: t("checks.worst") }, { head: t("checks.limit") }, { head: t("checks.outcome"), left: true },
  ], list.map((x) => [
    t.check(x.kind), write(unitNamed(x.unit ?? "count"), x.worst), write(unitNamed(x.unit ?? "count"), x.limit),
    [
      x.disturbed > 0 && h("span", { class: "badge bad" }, t("checks.disturbed", { n: x.disturbed })), " ",
      x.warning > 0 && h("span", { class: "badge warn" }, t("checks.warning", { n: x.warning })), " ",
      x.ok > 0 && t("checks.ok", { n: x.ok }), " ", x.unknown > 0 && t("checks.unknown", { n: x.unknown }),
    ],
  ])));
}
