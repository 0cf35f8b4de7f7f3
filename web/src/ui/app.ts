import type { Child } from "../dom";
import { h } from "../dom";
import { others, say, spoken } from "../report/say";
import type { Visit } from "../shell";
import { Refused, type Live } from "./api";
import type { UITexts } from "./texts";

export type { Page } from "../shell";

/** What every page is made from. */
export interface App extends Visit<UITexts> {
  live: Live | null;
  /** Calls back when the run under way has changed, as long as the page is shown. The
   * kind is that of the event. */
  follow(changed: (kind: string) => void): void;
}

/** An error as a reader needs it. */
export function problem(t: UITexts, error: unknown): HTMLElement {
  const said = error instanceof Refused ? spoken(t.report, error.why) : others(t.report, error instanceof Error ? error.message : String(error));
  const hint = error instanceof Refused ? error.hint : undefined;
  return h("p", { role: "alert", class: "alarm" }, t("failed"), " ", said,
    hint && [" ", h("span", { class: "hint" }, hint.kind === "verbatim" ? h("code", {}, say(t.report, hint)) : spoken(t.report, hint))]);
}

export function link(hash: string, ...children: Child[]): HTMLAnchorElement {
  return h("a", { href: hash }, ...children);
}

export const runPage = (id: string) => `#/run/${encodeURIComponent(id)}`;
export const historyPage = (name: string) => `#/history/${encodeURIComponent(name)}`;
export const comparePage = (a: string, b: string) => `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
export const severalPage = (ids: string[]) => `#/history?${new URLSearchParams(ids.map((id) => ["run", id]))}`;
