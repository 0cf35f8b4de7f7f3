import type { Child } from "../dom";
import { h } from "../dom";
import { spoken, told } from "../report/say";
import { Refused, type Live } from "./api";
import type { UITexts } from "./texts";

export type Theme = "auto" | "light" | "dark";

/** What every page is made from. */
export interface App {
  t: UITexts;
  live: Live | null;
  /** Calls back when the run under way has changed, as long as the page is shown. The
   * kind is that of the event. */
  follow(changed: (kind: string) => void): void;
  /** Calls back when the page is left. */
  left(end: () => void): void;
  /** Ends requests of a page that is left. */
  signal: AbortSignal;
  /** Shows another page. */
  go(hash: string): void;
  /** Says something to readers who do not see it. */
  say(text: string): void;
  /** Calls back when colours may have changed, as long as the page is shown. */
  recoloured(repaint: () => void): void;
}

export interface Page {
  title: string;
  content: Child;
}

/** An error as a reader needs it. */
export function problem(app: App, error: unknown): HTMLElement {
  const text = error instanceof Error ? error.message : String(error);
  const refused = error instanceof Refused ? error : undefined;
  const t = app.t.report;
  return h("p", { role: "alert", class: "alarm" }, app.t("failed"), " ", told(t, text, refused?.because),
    refused?.hint && [" ", h("span", { class: "hint" }, refused.hintBecause ? spoken(t, refused.hintBecause) : h("code", {}, refused.hint))]);
}

export function link(hash: string, ...children: Child[]): HTMLAnchorElement {
  return h("a", { href: hash }, ...children);
}

export const runPage = (id: string) => `#/run/${encodeURIComponent(id)}`;
export const historyPage = (name: string) => `#/history/${encodeURIComponent(name)}`;
export const comparePage = (a: string, b: string) => `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
