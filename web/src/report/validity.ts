import { details, h, table, type Child } from "../dom";
import type { Flag } from "../document";
import { change, counts, probability, shares, times, write } from "../format";
import type { Key } from "../i18n";
import { controls } from "./comparison";
import { pOf, type Context } from "./context";

export const remedies: Record<string, Key> = {
  generator_lag: "remedy.generator", generator_lag_tail: "remedy.generator", generator_cpu: "remedy.generator", run_queue_wait: "remedy.generator",
  generator_limit: "remedy.limit", plateau: "remedy.limit",
  achieved_rate: "remedy.slow", drops: "remedy.slow", connection_limit: "remedy.slow",
  steal: "remedy.steal", late_wakeups: "remedy.late", foreign_cpu: "remedy.foreign", memory_pressure: "remedy.memory", io_pressure: "remedy.io",
  unfinished: "remedy.unfinished", not_steady: "remedy.steady", pilot_not_steady: "remedy.pilot", dependent: "remedy.dependent",
  control_differs: "remedy.control", conservation: "remedy.conservation", incomplete: "remedy.output", no_complete_trial: "remedy.output", lag_not_checked: "remedy.window",
};

/** Whether the figures may be trusted: flags, checks, and what the A/A control found. */
export function validity(c: Context): Child[] {
  const { pilot } = c.doc.run;
  return [flags(c), pilot && h("p", {}, c.t("pilot", { time: write(times, pilot.warmup_seconds) })), control(c), checks(c)];
}

interface Kind {
  first: Flag;
  trials: number[];
}

/** One for each kind, however many trials have it; what spoils first. */
export function kinds(list: Flag[]): Kind[] {
  const all: Kind[] = [];
  for (const f of list) {
    let k = all.find((x) => x.first.kind === f.kind && x.first.spoils === f.spoils && f.trial && x.first.trial);
    if (!k) all.push((k = { first: f, trials: [] }));
    if (f.trial) k.trials.push(f.trial);
  }
  const rank = (k: Kind) => (k.first.kind === "control_differs" ? 0 : k.first.spoils ? 1 : 2);
  return all.sort((a, b) => rank(a) - rank(b));
}

function flags(c: Context): Child {
  const { t } = c;
  const list = kinds(c.doc.run.flags ?? []);
  const reasons = c.doc.incomplete ?? [];
  const parts: Child[] = [];
  if (reasons.length > 0) parts.push(h("p", { class: "alarm" }, h("b", {}, t("incomplete")), ": ", reasons.slice(0, 4).map((r) => r.split("\n")[0]).join("; "), reasons.length > 4 && ` ${t("n.more", { n: reasons.length - 4 })}`));
  if (list.length === 0) return parts;
  parts.push(table(t("flags"), [
    { head: t("flags.severity") }, { head: t("flags.kind"), left: true }, { head: t("flags.where"), left: true }, { head: t("flags.detail"), left: true }, { head: t("flags.remedy"), left: true },
  ], list.map(({ first, trials }) => {
    const where = trials.length > 1 ? t("flags.trials", { n: trials.length, list: trials.slice(0, 6).join(" ") + (trials.length > 6 ? " …" : "") })
      : first.trial ? t("flags.trial", { trial: first.trial, variant: first.variant ?? "" }) : t("flags.run");
    const remedy = remedies[first.kind];
    return [
      h("span", { class: `badge ${first.spoils ? "bad" : "warn"}` }, t(first.spoils ? "flags.spoilt" : "flags.warning")),
      t.maybe(`check.${first.kind}`, first.kind), where, h("span", { lang: "en" }, first.detail), remedy ? t(remedy) : "",
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
  const lines = found.map((x) => {
    const known = x.ratio.low !== undefined || x.ratio.high !== undefined;
    const apart = differs || (x.ratio.low ?? 0) > 1 || (x.ratio.high ?? Infinity) < 1;
    const p = pOf(x);
    const values = { base: x.base, variant: x.variant, metric: t.metric(x.metric), change: change(x.ratio) + (p === undefined ? "" : `, p ${probability(p)}`), rounds: t.plural("n.rounds", x.rounds) };
    return h("p", { class: known && apart ? "alarm" : "" }, t(!known ? "control.unknown" : apart ? "control.differs" : "control.ok", values));
  });
  return [h("h3", {}, t("section.control")), lines.length > 0 ? lines : h("p", {}, t("control.none")), controls(c)];
}

function checks(c: Context): Child {
  const { t } = c;
  const list = c.doc.checks ?? [];
  if (list.length === 0) return null;
  const unit = (name: string | undefined) => (name === "s" ? times : name === "ratio" ? shares : counts);
  return details(t("checks"), table(t("checks"), [
    { head: t("checks.kind") }, { head: t("checks.worst") }, { head: t("checks.limit") }, { head: t("checks.outcome"), left: true },
  ], list.map((x) => [
    t.maybe(`check.${x.kind}`, x.kind), write(unit(x.unit), x.worst), write(unit(x.unit), x.limit),
    [
      x.spoilt > 0 && h("span", { class: "badge bad" }, t("checks.spoilt", { n: x.spoilt })), " ",
      x.warning > 0 && h("span", { class: "badge warn" }, t("checks.warning", { n: x.warning })), " ",
      x.ok > 0 && t("checks.ok", { n: x.ok }), " ", x.unknown > 0 && t("checks.unknown", { n: x.unknown }),
    ],
  ])));
}
