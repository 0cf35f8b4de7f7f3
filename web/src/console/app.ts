import { h } from "../dom";
import type { Listing } from "../lists";
import type { Visit } from "../shell";
import { follow, type Message } from "../stream";
import { at, authorization, get, Problem, problemOf } from "./api";
import type { ConsoleTexts } from "./texts";

/** What every page is made from. */
export interface App extends Visit<ConsoleTexts>, Pick<Listing, "here" | "query" | "lock" | "problem"> {
  namespace: string;
}

/** An error as a reader needs it. */
export function problem(t: ConsoleTexts, error: unknown): HTMLElement {
  const p = error instanceof Problem ? error : undefined;
  const text = error instanceof Error ? error.message : String(error);
  return h("div", { role: "alert", class: "alarm" }, h("p", {}, p ? t.known(`problem.${p.kind}`, t("problem.other", { status: p.status })) : t("problem.unreached"), " ", h("span", { lang: "en", class: "hint" }, text)),
    p && p.faults.length > 1 && h("ul", { class: "faults" }, p.faults.map((f) => h("li", {}, h("code", {}, f.pointer), " ", h("span", { lang: "en" }, f.detail)))));
}

/** The address of a page in a namespace. */
export function page(app: App, parts: string[], query: Record<string, string> = {}): string {
  return `#/${parts.map(encodeURIComponent).join("/")}?${new URLSearchParams({ ...query, ns: app.namespace })}`;
}

/** Asks for a part again and again while somebody looks. */
export function again(app: App, load: () => Promise<void>, milliseconds: number): void {
  const timer = setInterval(() => { if (!document.hidden) void load(); }, milliseconds);
  app.left(() => clearInterval(timer));
}

/** Two comments that did not come are a lost connection. */
const silence = (header: Headers) => 2500 * Number(header.get("Dyno-Heartbeat-Seconds") ?? 0);

/** Follows a stream while the page is shown, and says whether what is shown is of now. */
export function live(app: App, path: string, take: (m: Message) => void): HTMLElement {
  const { t } = app;
  const state = h("p", { class: "live", role: "status" }, t("live.connecting"));
  let heard: number | undefined;
  void follow({
    path, silence, message: take,
    headers: () => ({ ...authorization(), Accept: "text/event-stream" }),
    heard: () => { heard = Date.now(); },
    connected: (is) => {
      if (app.signal.aborted) return;
      if (is) heard = Date.now();
      state.className = is ? "live" : "live lost";
      state.textContent = is ? t("live.now") : heard === undefined ? t("live.never") : t("live.lost", { time: t.clock(heard) });
    },
    refused: (status, text) => {
      if (status === 401) app.lock();
      state.className = "live lost";
      state.replaceChildren(problem(t, problemOf(status, text)));
    },
  }, app.signal);
  return state;
}

/** Loads a part again when what it shows has changed, once a second at most. */
export function liveList(app: App, query: { kind: string; name?: string; since: string }, load: () => Promise<void>): HTMLElement {
  let timer = 0, last = 0, whole = true;
  app.left(() => clearTimeout(timer));
  return live(app, at(["watch"], { ...query, namespace: app.namespace }), (m) => {
    whole = m.type === "resync" ? false : m.type === "synced" || whole;
    if (!whole || timer) return;
    timer = window.setTimeout(() => {
      timer = 0;
      last = Date.now();
      void load();
    }, Math.max(50, 1000 - (Date.now() - last)));
  });
}

/** A field that searches the rows of tables which are on the page: what the server keeps of these has no index. */
export function onPage(app: App, host: HTMLElement): { box: HTMLElement; find: () => void } {
  const find = () => {
    for (const row of host.querySelectorAll<HTMLTableRowElement>("tbody tr")) row.hidden = !row.textContent.toLowerCase().includes(box.value.trim().toLowerCase());
  };
  const box = h("input", { type: "search", input: find });
  return { box: h("label", { class: "select wide" }, h("span", {}, app.t("search.page")), box), find };
}

let lists = 0;

/** The namespace that is shown; others can be typed, too. */
export async function namespaces(app: App): Promise<HTMLElement> {
  const id = `namespaces${++lists}`;
  const known = await get<{ items: string[] }>(at(["namespaces"], { limit: 1000 }), app.signal);
  const box = h("input", { type: "text", list: id, value: app.namespace, autocomplete: "off", spellcheck: "false", maxlength: 63, change: () => {
    const query = new URLSearchParams(app.query);
    query.delete("after");
    query.set("ns", box.value.trim() || "default");
    app.go(`#/${app.here}?${query}`);
  } });
  return h("label", { class: "select" }, h("span", {}, app.t("namespace")), box, h("datalist", { id }, known.items.map((value) => h("option", { value }))));
}

/** What stands in the address for a list to be asked for. */
export const wanted = (app: App) => ({ namespace: app.namespace, search: app.query.get("search") ?? "", prefix: app.query.get("prefix") ?? "", after: app.query.get("after") ?? "" });
