import { h, table, type Child } from "../dom";
import type { Answer, Brief, Message, Validity } from "../document";
import type { Texts } from "../i18n";
import type { Context } from "./context";
import { figured, spoken, spokenAll, told } from "./say";

/** Why a figure is not as it is printed. */
export function why(t: Texts, v: { because?: Message; why?: string; causes?: string[] }): Child {
  const causes = (v.causes ?? []).map((kind) => t.maybe(`check.${kind}`, kind)).join(t("answer.comma"));
  return told(t, v.why, v.because) ?? (causes || t("why.unknown"));
}

/** The sentences that answer the question. */
export function sentences(t: Texts, a: Answer): Child[] {
  return a.says.map((m) => spoken(t, m));
}

/** What the run comes to, below its first sentences. */
export function facts(c: Context, a: Answer): Child {
  const { t } = c;
  const each = (list: Message[] | undefined): Child[] => (list ?? []).map((m) => spoken(t, m));
  const rows: [string, Child[]][] = [
    [t("pairs"), each(a.pairs)],
    [t("sure"), a.sure?.length ? [spokenAll(t, a.sure)] : []],
    [t("broke"), each(a.broke)],
    [t("trust"), [...(a.trust?.length ? [spokenAll(t, a.trust)] : []), ...each(a.asked)]],
    [t("again"), each(a.again)],
    [t("next"), a.next ? [spoken(t, a.next)] : []],
  ];
  const shown = rows.filter(([, lines]) => lines.length > 0);
  if (shown.length === 0) return null;
  return h("dl", { class: "facts" }, shown.map(([name, lines]) => [
    h("dt", {}, name),
    lines.slice(0, mostLines).map((l) => h("dd", {}, l)), lines.length > mostLines && h("dd", {}, t("more.lines", { n: lines.length - mostLines })),
  ]));
}

const mostLines = 4;
const mostRows = 14;

/** The claims, or else what was compared or measured, as a small table. */
export function brief(c: Context, b: Brief | undefined): Child {
  if (!b || b.rows.length === 0) return null;
  const { t } = c;
  const head = b.head.map((name) => ({ head: t.maybe(`head.${name}`, t.metric(name)), left: true }));
  const cell = (name: string, value: string): Child => {
    switch (name) {
      case "outcome": case "verdict": return t.maybe(`outcome.${value}`, t.maybe(value, value));
      case "metric": return t.metric(value);
      case "gauge": return t.maybe(`gauge.${value}`, value);
      case "limit": return limit(c, (c.doc.run.capacities ?? []).find((x) => x.limit === value) ?? { limit: value });
      case "says": return h("span", { "data-own": true }, value);
    }
    return figured(t, value);
  };
  return [
    table(t("section.answer"), head, b.rows.slice(0, mostRows).map((row) => row.map((value, i) => cell(b.head[i] ?? "", value)))),
    b.rows.length > mostRows && h("p", { class: "hint" }, t("n.more", { n: b.rows.length - mostRows })),
  ];
}

/** What limits a capacity: a threshold, a check, or why a threshold could not be judged. */
export function limit(c: Context, of: { limit?: string; limit_because?: Message }): Child {
  if (of.limit_because) return spoken(c.t, of.limit_because);
  return of.limit ? c.t.maybe(`check.${of.limit}`, of.limit) : "";
}

/** The figures that are not as printed, with what may be said of them. */
export function states(c: Context, list: Validity[], write: (v: Validity) => string): Child {
  const { t } = c;
  const order = ["not_identified", "relative_only", "bounded"];
  const bad = list.filter((v) => order.includes(v.state)).sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  if (bad.length === 0) return null;
  return [
    h("h3", {}, t("states")), h("p", { class: "hint" }, t("state.hint")),
    table(t("states"), [{ head: t("states.state") }, { head: t("states.figure"), left: true }, { head: t("col.variant"), left: true }, { head: t("states.bounds") }, { head: t("states.why"), left: true }],
      bad.map((v) => [t.maybe(`state.${v.state}`, v.state), t.metric(v.figure), v.base ? `${v.variant} / ${v.base}` : v.variant, write(v), why(t, v)])),
  ];
}
