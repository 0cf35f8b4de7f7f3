import { fill, type Language, type Values } from "./index";

/** Writes a program's own texts in one language. KEY.one is the form for one, where a
 * text has a form of its own for it. */
export interface PageTexts<K extends string> {
  (key: K, values?: Values): string;
  language: Language;
  plural(key: K, n: number, values?: Values): string;
  /** An instant, in the reader's zone. */
  instant(text: string | undefined): string;
}

export function pageTexts<K extends string>(texts: Record<Language, Record<K, string>>, language: Language): PageTexts<K> {
  const own = texts[language];
  const t = ((key, values) => fill(own[key], values)) as PageTexts<K>;
  t.language = language;
  t.plural = (key, n, values) => {
    const one = `${key}.one` as K;
    return fill(n === 1 && Object.hasOwn(own, one) ? own[one] : own[key], { n: n.toLocaleString("en"), ...values });
  };
  t.instant = instantIn(language);
  return t;
}

/** Writes instants, in the reader's zone. */
export function instantIn(language: Language): (text: string | undefined) => string {
  const format = new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return (text) => {
    const at = Date.parse(text ?? "");
    return Number.isFinite(at) ? format.format(at) : "–";
  };
}
