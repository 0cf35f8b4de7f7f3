// Pages with lists that a server gives by pages: what is shown stands in the address.

import { h, table, type Child, type Column } from "./dom";
import type { ListKey } from "./i18n/lists";
import type { Values } from "./i18n";
import type { Visit } from "./shell";

/** What pages with lists are made from. */
export interface Listing extends Visit<(key: ListKey, values?: Values) => string> {
  /** The page's own address, and what stands in it. */
  here: string;
  query: URLSearchParams;
  /** Asks for the token. */
  lock(): void;
  /** An error as a reader needs it. */
  problem(error: unknown): HTMLElement;
}

export interface Part {
  host: HTMLElement;
  load: () => Promise<void>;
}

/** A part of a page that is asked for again and again; the newest answer is shown, with
 * what is wrong if there is none. A link or button that had the focus keeps it, if it is
 * still there. */
export function part(app: Listing, draw: () => Promise<Child>): Part {
  const host = h("div", { "aria-busy": "true" });
  let asked = 0;
  let shown: Child = null;
  const load = async () => {
    const current = ++asked;
    let wrong: Child = null, content: Child = null;
    try {
      content = h("div", {}, await draw());
    } catch (error) {
      const { status = 0 } = error as { status?: number };
      if (status === 401) app.lock();
      if (status < 400 || status >= 500) content = shown;
      wrong = app.problem(error);
    }
    if (app.signal.aborted || current !== asked) return;
    shown = content;
    const focused = host.contains(document.activeElement) ? document.activeElement : null;
    const same = (e: Element) => ["href", "aria-label"].every((name) => e.getAttribute(name) === focused?.getAttribute(name)) && e.textContent === focused?.textContent;
    const scrolled = host.querySelector(".scroll")?.scrollLeft ?? 0;
    host.replaceChildren(h("div", {}, wrong, content));
    if (focused) [...host.querySelectorAll<HTMLElement>("a[href], button")].find(same)?.focus({ preventScroll: true });
    host.querySelector(".scroll")?.scrollTo({ left: scrolled });
    host.removeAttribute("aria-busy");
  };
  return { host, load };
}

/** Changes what stands in the address of the page without leaving it. While a link is being followed, the address is
 * the next page's already. */
export function remember(app: Listing, name: string, value: string): void {
  const [path = ""] = location.hash.replace(/^#\/?/, "").split("?", 1);
  if (path !== "" && path !== app.here) return;
  if (value) app.query.set(name, value);
  else app.query.delete(name);
  if (name !== "after") app.query.delete("after");
  history.replaceState(null, "", `#/${app.here}?${app.query}`);
}

/** A field to search by; what is searched for stands in the address. */
export function search(app: Listing, label: string, load: () => Promise<void>, field: "search" | "prefix" = "search"): HTMLElement {
  let typing = 0;
  app.left(() => clearTimeout(typing));
  const box = h("input", { type: "search", value: app.query.get(field) ?? "", maxlength: 253, input: () => {
    clearTimeout(typing);
    typing = window.setTimeout(() => { remember(app, field, box.value.trim()); void load(); }, 200);
  } });
  return h("label", { class: "select wide" }, h("span", {}, label), box);
}

/** Controls above a list. What the Enter key does, typing has done. */
export function controls(...children: Child[]): HTMLElement {
  return h("form", { class: "controls", role: "search", submit: (e) => e.preventDefault() }, children);
}

/** A page of a list, and the ways on and back. */
export function paged(app: Listing, label: string, columns: Column[], rows: Child[][], next: string | undefined): Child {
  const { t } = app;
  const to = (after: string) => {
    const query = new URLSearchParams(app.query);
    query.delete("after");
    if (after) query.set("after", after);
    return `#/${app.here}?${query}`;
  };
  return [
    rows.length > 0 ? table(label, columns, rows) : h("p", {}, t("none")),
    (next || app.query.has("after")) && h("p", { class: "controls" },
      app.query.has("after") && h("a", { href: to("") }, t("page.first")), next ? h("a", { href: to(next) }, t("page.next")) : t("page.last")),
  ];
}

/** A time as a field for times has it, in the reader's zone. */
export const local = (milliseconds: number) => new Date(milliseconds - 60_000 * new Date(milliseconds).getTimezoneOffset()).toISOString().slice(0, 16);
