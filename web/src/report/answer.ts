import { details, h, table, type Child } from "../dom";
import type { Answer, Brief, Message, Said, Validity } from "../document";
import type { Texts } from "../i18n";
import type { Context } from "./context";

/** Says a line in the reader's language: its words are those of package texts. */
export function say(t: Texts, line: Said): string {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(line.values ?? {})) values[name] = word(t, name, value);
  for (const [name, parts] of Object.entries(line.parts ?? {})) values[name] = joined(t, parts);
  return t.said(line.kind, values);
}

/** Several lines as one sentence. */
export function joined(t: Texts, lines: Said[]): string {
  return lines.map((l) => say(t, l)).join(t("answer.comma"));
}

/** A value that is a name for which there are words. */
function word(t: Texts, name: string, value: string): string {
  switch (name) {
    case "metric": return apart(t, t.metric(value));
    case "check": case "limit": return apart(t, t.maybe(`check.${value}`, value));
    case "gauge": return t.maybe(`gauge.${value}`, value);
  }
  return value;
}

/** In Chinese, a name in Latin letters stands apart from the words around it. */
export function apart(t: Texts, name: string): string {
  return t.language === "zh" ? name.replace(/^(?=[\x21-\x7e])/, " ").replace(/(?<=[\x21-\x7e])$/, " ") : name;
}

/** Why a figure is not as it is printed. */
export function why(t: Texts, v: { because?: Message; why?: string; causes?: string[] }): string {
  if (v.because) return say(t, v.because);
  const causes = (v.causes ?? []).map((kind) => t.maybe(`check.${kind}`, kind)).join(t("answer.comma"));
  return causes || t("why.unknown");
}

/** The sentences that answer the question. Reasons in dyno's own English are in the list of
 * what is missing. */
export function sentences(t: Texts, a: Answer): string[] {
  return a.says.filter((l) => l.kind !== "answer.reason" || t.language === "en").map((l) => say(t, l));
}

/** What the run comes to, below its first sentences. */
export function facts(c: Context, a: Answer): Child {
  const { t } = c;
  const rows: [string, string[]][] = [
    [t("sure"), a.sure?.length ? [joined(t, a.sure)] : []],
    [t("broke"), (a.broke ?? []).map((l) => say(t, l))],
    [t("trust"), [...(a.trust?.length ? [joined(t, a.trust)] : []), ...(a.asked ?? []).map((l) => say(t, l))]],
    [t("again"), (a.again ?? []).map((l) => say(t, l))],
    [t("next"), a.next ? [say(t, a.next)] : []],
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
      case "limit": return t.maybe(`check.${value}`, value);
      case "says": return h("span", { "data-own": true }, value);
    }
    return figured(t, value);
  };
  return [
    table(t("section.answer"), head, b.rows.slice(0, mostRows).map((row) => row.map((value, i) => cell(b.head[i] ?? "", value)))),
    b.rows.length > mostRows && h("p", { class: "hint" }, t("n.more", { n: b.rows.length - mostRows })),
  ];
}

/** A figure that was written for any language, but for the few words in it. */
export function figured(t: Texts, value: string): string {
  return value.replace("ratio only", t("figure.ratio")).replace("(range ", `(${t("range")} `).replace(/^range /, `${t("range")} `);
}

/** Messages in the words of whoever made them: an operating system, a target, or dyno in
 * English. In another language they are behind a summary in that language. */
export function own(c: Context, texts: string[]): Child {
  if (texts.length === 0) return null;
  if (c.t.language === "en") return h("ul", {}, texts.map((x) => h("li", {}, x)));
  return details(c.t("words.own", { n: texts.length }), h("ul", { lang: "en", "data-own": true }, texts.map((x) => h("li", {}, x))));
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
