// Sentences as data are said here: their words are those of package texts.

import { h, type Child } from "../dom";
import type { Message } from "../document";
import type { Texts } from "../i18n";

/** A piece of a sentence: dyno's own words, or what somebody else said. */
interface Piece {
  text: string;
  others?: boolean;
}

/** What a program, the kernel or an author said is said as it is. */
const verbatim = ["error", "words"];

/** Reasons are clauses, all else is joined as in a list. */
const clauses = "reasons";

function pieces(t: Texts, m: Message): Piece[] {
  const words = t.sentence(m.kind);
  if (words === undefined) return [{ text: m.kind }];
  // Every second one is a name.
  return words.split(/\{(\w+)\}/).flatMap((part, i): Piece[] => {
    if (i % 2 === 0) return [{ text: part }];
    const parts = m.parts && Object.hasOwn(m.parts, part) ? m.parts[part]! : undefined;
    if (parts) return listed(t, parts, t(part === clauses ? "answer.semicolon" : "answer.comma"));
    const value = m.values && Object.hasOwn(m.values, part) ? m.values[part]! : undefined;
    if (value === undefined) return [{ text: `{${part}}` }];
    return verbatim.includes(part) ? [{ text: firstLine(value), others: true }] : [{ text: word(t, part, value) }];
  });
}

/** What a process had printed when it died is on the lines below, and in its log. */
export function firstLine(said: string): string {
  const [first = "", ...more] = said.split("\n");
  return more.length > 0 ? first.replace(/; last output:$/, "") : first;
}

function listed(t: Texts, list: Message[], separator: string): Piece[] {
  return list.flatMap((m, i) => [...(i > 0 ? [{ text: separator }] : []), ...pieces(t, m)]);
}

/** A value that is a name for which there are words. */
function word(t: Texts, name: string, value: string): string {
  switch (name) {
    case "metric": return apart(t, t.metric(value));
    case "check": case "limit": case "cause": return apart(t, t.check(value));
    case "gauge": return apart(t, t.maybe(`gauge.${value}`, value));
    case "series": return apart(t, t.maybe(`series.${value}`, value));
    case "profile": return apart(t, t.maybe(`kind.${value}`, value));
    case "figure": case "least": case "most": case "measured": case "interval": case "change": return figured(t, value);
  }
  return value;
}

/** A figure that was written for any language, but for the few words in it. */
export function figured(t: Texts, value: string): string {
  return value.replace("(range ", `(${t("range")} `).replace(/^range /, `${t("range")} `)
    .replace(/^(.*) in (\d[\d.hms]*)$/, (_, growth: string, time: string) => t("figure.growth", { growth, time }));
}

/** In Chinese, a name in Latin letters stands apart from the words around it. */
export function apart(t: Texts, name: string): string {
  return t.language === "zh" ? name.replace(/^(?=[\x21-\x7e])/, " ").replace(/(?<=[\x21-\x7e])$/, " ") : name;
}

const mark = "[，。；：、（）]", han = "[\\u4e00-\\u9fff]";
const beginsClose = new RegExp(`^(${mark}| ?${han})`), endsClose = new RegExp(`(${mark}|${han} ?)$`);
const beginsWithMark = new RegExp(`^${mark}`), endsWithMark = new RegExp(`${mark}$`);

/** In Chinese, no blank stands next to a mark or between two characters where pieces meet, nor
 * at either end. */
function close(t: Texts, list: Piece[]): Piece[] {
  if (t.language !== "zh") return list;
  const closed = list.filter((p) => p.text !== "").map((p) => ({ ...p }));
  closed.forEach((p, i) => {
    if (p.others) return;
    const before = closed[i - 1]?.text, after = closed[i + 1]?.text;
    if (before === undefined || endsWithMark.test(before) || (endsClose.test(before) && beginsClose.test(p.text))) p.text = p.text.trimStart();
    if (after === undefined || beginsWithMark.test(after) || (beginsClose.test(after) && endsClose.test(p.text))) p.text = p.text.trimEnd();
  });
  return closed;
}

const text = (list: Piece[]): string => list.map((p) => p.text).join("");

/** Says a message in the reader's language. */
export function say(t: Texts, m: Message): string {
  return text(close(t, pieces(t, m)));
}

/** Several messages as one sentence. */
export function joined(t: Texts, list: Message[]): string {
  return text(close(t, listed(t, list, t("answer.comma"))));
}

/** What is shown of pieces: what others said is marked, in another language than theirs. */
function shown(t: Texts, list: Piece[]): Child[] {
  return close(t, list).map((p) => (p.others ? others(t, p.text) : p.text));
}

/** A message for the page. */
export function spoken(t: Texts, m: Message): Child[] {
  return shown(t, pieces(t, m));
}

/** Sentences one after another: Chinese ones have no blanks between them. */
export function paragraph(t: Texts, ...sentences: string[]): string {
  return sentences.filter(Boolean).join(t.language === "zh" ? "" : " ");
}

/** Several messages as one sentence, for the page. */
export function spokenAll(t: Texts, list: Message[]): Child[] {
  return shown(t, listed(t, list, t("answer.comma")));
}

/** What somebody else said: as a rule it is English. */
export function others(t: Texts, words: string): Child {
  return t.language === "en" ? words : h("span", { lang: "en" }, words);
}

/** A sentence that may not be there. */
export function said(t: Texts, m: Message | null | undefined): Child {
  return m ? spoken(t, m) : null;
}
