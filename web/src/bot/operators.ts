// The operator's page: keys, teams, users and limits, deployments, usage and who changed what.

import { h } from "../dom";
import type { Listing } from "../lists";
import { shell, type Page, type Visit } from "../shell";
import { problem } from "./app";
import { audit } from "./audit";
import { deployments } from "./deployments";
import { items } from "./items";
import { at, get, inUse, kinds, setToken, type Kind } from "./manage";
import { operatorTexts, type OperatorTexts } from "./operatortexts";
import { spent } from "./spent";

/** What every page is made from. */
export interface App extends Visit<OperatorTexts>, Pick<Listing, "here" | "query" | "lock" | "problem"> {
  /** Keys can be made at run time. */
  managed: boolean;
  /** The operator may change what there is. */
  edits: boolean;
}

const names = [...kinds, "deployments", "usage", "audit"] as const;

/** The address of a page. */
export const page = (name: (typeof names)[number], query: Record<string, string> = {}): string => `#/${name}?${new URLSearchParams(query)}`;

let managed: boolean | undefined, edits = false;

async function pageOf(visit: Visit<OperatorTexts>, name: string, _: string[], query: URLSearchParams): Promise<Page> {
  if (managed === undefined) {
    const use = await inUse(visit.signal);
    edits = use.managed && (await get<{ role?: string }>(at(["me"]), visit.signal).catch(() => ({ role: "" }))).role !== "reader";
    managed = use.managed;
    frame.pages = named(managed ? names : ["keys", "deployments"]);
    whole.draw();
  }
  const app: App = { ...visit, managed, edits, query, here: name, lock: () => whole.lock(), problem: (error) => problem(visit.t, error) };
  if (frame.pages.some(([known]) => known === name)) {
    if (name === "deployments") return deployments(app);
    if (name === "usage") return spent(app);
    if (name === "audit") return audit(app);
    return items(app, name as Kind);
  }
  return { title: app.t("unknownPage"), content: h("a", { href: page("keys") }, app.t("nav.keys")) };
}

const named = (list: readonly (typeof names)[number][]) => list.map((name): [string, (t: OperatorTexts) => string] => [name, (t) => t(`nav.${name}`)]);

const frame = {
  name: "dyno bot", pages: named(["keys"]), texts: operatorTexts, page: pageOf, problem,
  token: (value: string) => { setToken(value); void whole.show(false); },
};

let whole: ReturnType<typeof shell>;

/** Fills the page's root. */
export function operators(): void {
  whole = shell<OperatorTexts>(frame);
  addEventListener("hashchange", () => void whole.show(true));
  void whole.show(false);
}
