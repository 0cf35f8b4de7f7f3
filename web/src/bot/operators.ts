// The operator's page: keys, teams, users and limits, deployments, usage and who changed what.

import { h } from "../dom";
import type { Listing } from "../lists";
import { shell, type Page, type Visit } from "../shell";
import { problem } from "./app";
import { audit } from "./audit";
import { deployments } from "./deployments";
import { items } from "./items";
import { at, get, kinds, setToken, type Kind } from "./manage";
import { operatorTexts, type OperatorTexts } from "./operatortexts";
import { spent } from "./spent";

/** What every page is made from. */
export interface App extends Visit<OperatorTexts>, Pick<Listing, "here" | "query" | "lock" | "problem"> {
  /** The operator may change what there is. */
  edits: boolean;
}

const names = [...kinds, "deployments", "usage", "audit"] as const;

/** The address of a page. */
export const page = (name: (typeof names)[number], query: Record<string, string> = {}): string => `#/${name}?${new URLSearchParams(query)}`;

let edits: boolean | undefined;

async function pageOf(visit: Visit<OperatorTexts>, name: string, _: string[], query: URLSearchParams): Promise<Page> {
  edits ??= (await get<{ role: string }>(at(["me"]), visit.signal)).role !== "reader";
  const app: App = { ...visit, edits, query, here: name, lock: () => whole.lock(), problem: (error) => problem(visit.t, error) };
  if (frame.pages.some(([known]) => known === name)) {
    if (name === "deployments") return deployments(app);
    if (name === "usage") return spent(app);
    if (name === "audit") return audit(app);
    return items(app, name as Kind);
  }
  return { title: app.t("unknownPage"), content: h("a", { href: page("keys") }, app.t("nav.keys")) };
}

const frame = {
  name: "dyno bot", pages: names.map((name): [string, (t: OperatorTexts) => string] => [name, (t) => t(`nav.${name}`)]), texts: operatorTexts, page: pageOf, problem,
  token: (value: string) => { setToken(value); void whole.show(false); },
};

let whole: ReturnType<typeof shell>;

/** Fills the page's root. */
export function operators(): void {
  whole = shell<OperatorTexts>(frame);
  addEventListener("hashchange", () => void whole.show(true));
  void whole.show(false);
}
