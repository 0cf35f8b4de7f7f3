import type { Child } from "../dom";
import { h } from "../dom";
import { Refused } from "./api";
import type { BotTexts } from "./texts";

/** What every page is made from. */
export interface App {
  t: BotTexts;
  /** Ends requests of a page that is left. */
  signal: AbortSignal;
  /** Says something to readers who do not see it. */
  say(text: string): void;
  /** Asks to log in again, where the error says that it is needed. It tells whether it
   * has. */
  locked(error: unknown): boolean;
}

export interface Page {
  title: string;
  content: Child;
}

/** An error as a reader needs it. What the gateway says is in English. */
export function problem(t: BotTexts, error: unknown): HTMLElement {
  const known = error instanceof Refused;
  return h("p", { role: "alert", class: "alarm" }, t("failed"), " ", known ? h("span", { lang: "en" }, error.message) : t("failed.lost"),
    known && error.after > 0 && [" ", t("failed.later", { n: error.after })]);
}
