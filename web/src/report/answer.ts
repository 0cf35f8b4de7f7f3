import { h, table, type Child } from "../dom";
import type { Answer, Brief, Message, Validity } from "../document";
import type { Texts } from "../i18n";
import type { Context } from "./context";
import { verdict } from "./comparison";
import { figured, said, spoken } from "./say";

/** Why a figure is not as it is printed. */
export function why(t: Texts, v: { why?: Message; causes?: string[] }): Child {
  const causes = (v.causes ?? []).map((kind) => t.check(kind)).join(t("answer.comma"));
  return said(t, v.why) ?? (causes || t("why.unknown"));
}

/** The sentences that answer the question. */
export function sentences(t: Texts, a: Answer): Child[] {
  return a.says.map((m) => spoken(t, m));
}

/** What else was found, and what helps most. */
export function facts(c: Context, a: Answer): Child {
  const { t } = c;
  const each = (list: Message[] | undefined): Child[] => (list ?? []).map((m) => spoken(t, m));
  const rows: [string, Child[]][] = [
    [t("from"), each(a.from)],
    [t("placed"), each(a.placed)],
    [t("pairs"), each(a.pairs)],
    [t("broke"), each(a.broke)],
    [t("next"), a.next ? [spoken(t, a.next)] : []],
  ];
  const shown = rows.filter(([, lines]) => lines.length > 0);
  if (shown.length === 0) return null;
  return h("dl", { class: "facts" }, shown.map(([name, lines]) => [
    h("dt", {}, name),
    lines.slice(0, mostLines).map((l) => h("dd", {}, l)), lines.length > mostLines && h("dd", {}, t("more.lines", { n: lines.length - mostLines })),
  ]));
}

const mostLines = 2;
const mostRows = 5;

/** The verdicts: of the primary metric, and all that are worse. */
export function verdicts(c: Context): Child {
  const { t } = c;
  const list = (c.doc.run.comparisons ?? []).filter((x) => !x.role && (x.primary || x.verdict === "worse"));
  list.sort((a, b) => Number(b.primary ?? false) - Number(a.primary ?? false));
  if (list.length === 0 || c.doc.run.ladder?.length) return null; // its picture has them
  return h("p", { class: "verdicts" }, list.slice(0, mostRows).map((x) => h("span", {}, verdict(c, x.verdict || "inconclusive"), ` ${x.variant} / ${x.base}: ${t.metric(x.metric)}`)),
    list.length > mostRows && h("span", { class: "hint" }, t("n.more", { n: list.length - mostRows })));
}

/** What the variants are: the commands that were compared, or their variables. */
export function commands(c: Context): Child {
  const { plan } = c.doc.run;
  const list = (plan.variants ?? []).filter((v) => !v.alias_of && v.variables);
  if (plan.sweep || list.length === 0 || list.length > mostRows) return null;
  return h("dl", { class: "commands" }, list.map((v) => [
    h("dt", {}, v.name), h("dd", {}, h("code", {}, v.variables!["command"] ?? Object.entries(v.variables!).map(([k, x]) => `${k}=${x}`).join(" "))),
  ]));
}

/** The figures as a small table, where nothing was compared. All else is drawn below. */
export function brief(c: Context, b: Brief | undefined): Child {
  if (!b || b.rows.length === 0 || b.kind !== "variants") return null;
  const { t } = c;
  const from = b.rows.length === 1 ? 1 : 0; // a name alone tells nothing
  const head = b.head.slice(from).map((name) => ({ head: name === "variant" ? t("col.variant") : t.metric(name), left: true }));
  return [
    table(t("section.answer"), head, b.rows.slice(0, mostRows).map((row) => row.slice(from).map((value) => figured(t, value)))),
    b.rows.length > mostRows && h("p", { class: "hint" }, t("n.more", { n: b.rows.length - mostRows })),
  ];
}

/** What limits a capacity: a threshold, a check, or why a threshold could not be judged. */
export function limit(c: Context, of: { limit?: string; limit_because?: Message }): Child {
  if (of.limit_because) return spoken(c.t, of.limit_because);
  return of.limit ? c.t.check(of.limit) : "";
}

/** The figures that are not as printed, and what is known of them. */
export function states(c: Context, list: Validity[], write: (v: Validity) => string): Child {
  const { t } = c;
  const order = ["not_identified", "relative_only", "bounded"];
  const bad = list.filter((v) => order.includes(v.state)).sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  if (bad.length === 0) return null;
  return [
    h("p", { class: "hint" }, t("state.hint")),
    table(t("states"), [{ head: t("states.state") }, { head: t("states.figure"), left: true }, { head: t("col.variant"), left: true }, { head: t("states.bounds") }, { head: t("states.why"), left: true }],
      bad.map((v) => [t.maybe(`state.${v.state}`, v.state), t.metric(v.figure), v.base ? `${v.variant} / ${v.base}` : v.variant, write(v), why(t, v)])),
  ];
}
