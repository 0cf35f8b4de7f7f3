import { quantileName, splitStep } from "../format";
import { en, type Key } from "./en";
import { zh } from "./zh";
import { checks, clocks, labels } from "../names";

export type { Key };
export type Language = "en" | "zh";

export const languages: [Language, string][] = [["en", "English"], ["zh", "简体中文"]];

const texts: Record<Language, Record<Key, string>> = { en, zh };

/** The first language of a reader's list that there are texts in. */
export function preferred(list: readonly string[]): Language {
  for (const tag of list) {
    const primary = tag.toLowerCase().split("-")[0];
    if (primary === "zh" || primary === "en") return primary;
  }
  return "en";
}

export type Values = Record<string, string | number>;

/** Writes texts in one language. */
export interface Texts {
  (key: Key, values?: Values): string;
  language: Language;
  /** The text for a count, {n}. */
  plural(key: Key, n: number, values?: Values): string;
  /** The text of a key made at run time, or what stands in for it. */
  maybe(key: string, otherwise: string): string;
  /** What a metric is called. */
  metric(name: string): string;
  /** What a clock is called. */
  clock(tag: string): string;
  /** What a check or another cause is called. */
  check(kind: string): string;
  /** The words of a sentence of package texts, {names} included; undefined of one that
   * this page does not know. */
  sentence(kind: string): string | undefined;
}

/** Puts values in for {names}. A value that looks like a {name} is left alone. */
export function fill(text: string, values: Values = {}): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
}

/** What a run's figures are per: requests, or events where there are subscribers. */
export type Work = "request" | "event";

/** The clocks of requests, which are publications next to subscribers. */
const ofRequests = ["response", "service", "send_lag"];

/** The texts of a language. Of events, KEY.event is the form of a text that has one. */
export function textsIn(language: Language, work: Work = "request"): Texts {
  const own = texts[language];
  const has = (key: string): key is Key => Object.hasOwn(own, key);
  const text = (key: Key) => {
    const ofEvents = `${key}.event`;
    return work === "event" && has(ofEvents) ? own[ofEvents] : own[key];
  };
  const t = ((key, values) => fill(text(key), values)) as Texts;
  t.language = language;
  t.plural = (key, n, values) => {
    const one = `${key}.one`;
    return fill(text(n === 1 && has(one) ? one : key), { n: n.toLocaleString("en"), ...values });
  };
  t.sentence = (kind) => (has(kind) ? text(kind) : undefined);
  t.maybe = (key, otherwise) => (has(key) ? text(key) : otherwise);
  t.clock = (tag) => {
    const label = Object.hasOwn(clocks, tag) ? clocks[tag]![language] : tag;
    return work === "event" && ofRequests.includes(tag) ? fill(own["clock.event"], { clock: label }) : label;
  };
  t.check = (kind) => (Object.hasOwn(checks, kind) ? checks[kind]![language] : kind);
  t.metric = (whole) => {
    const [name, step] = splitStep(whole);
    if (step) return fill(own["metric.step"], { metric: t.metric(name), step });
    const label = Object.hasOwn(labels[language], name) ? labels[language][name] : undefined;
    if (label) return work === "event" ? label.replace("request", "event").replace("请求", "事件") : label;
    const dot = name.indexOf(".");
    const clock = name.slice(0, dot);
    return Object.hasOwn(clocks, clock) ? fill(own["metric.clock"], { clock: t.clock(clock), quantile: quantileName(name.slice(dot + 1)) }) : name.replace(/^program\.(?=.)/, "");
  };
  return t;
}
