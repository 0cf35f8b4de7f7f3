// The frame of pages that are served: navigation, language, colours, the token, and which
// page is shown.

import { h, type Child } from "./dom";
import type { Language } from "./i18n";
import { dress, frameWords, keep, settings, switches } from "./settings";

/** The texts that a frame needs of its program. */
export interface Words {
  (key: "token.title" | "token.text"): string;
}

/** What every page is made from, in addition to what its program has. */
export interface Visit<T> {
  t: T;
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

export interface Frame<T extends Words> {
  name: string;
  /** Pages that are navigated to, by the first part of their address. */
  pages: [string, (t: T) => string][];
  texts(language: Language): T;
  /** The page at an address: its name, what stands below it, and its query. */
  page(visit: Visit<T>, name: string, below: string[], query: URLSearchParams): Page | Promise<Page>;
  problem(t: T, error: unknown): Child;
  /** The reader has entered a token. */
  token(value: string): void;
  /** What stands next to a page's name. */
  mark?(t: T, page: string): Child;
}

export interface Shell {
  /** Shows the page that the address names. */
  show(moved: boolean): Promise<void>;
  /** Draws navigation and switches again. */
  draw(): void;
  /** Asks for the token. */
  lock(): void;
  /** Says above all pages what is wrong; nothing is, if it is empty. */
  alarm(text: (() => string) | null): void;
  language(): Language;
}

/** Fills the page's root. Nothing is shown before show is called. */
export function shell<T extends Words>(f: Frame<T>): Shell {
  const chosen = settings();
  const root = document.getElementById("ui")!;
  let painters: (() => void)[] = [];
  let leaving = new AbortController();
  let shown = 0;
  let wrong: (() => string) | null = null;

  const said = h("p", { class: "said", "aria-live": "polite" });
  const alarm = h("p", { class: "alarm", role: "status", hidden: true });
  const links = h("ul");
  const main = h("main", { id: "main", tabindex: -1 });
  const top = h("div");

  const address = (): [string, string[], URLSearchParams] => {
    const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    const [name, ...below] = path.split("/").map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part; // somebody's own address
      }
    });
    return [name || f.pages[0]![0], below, new URLSearchParams(query)];
  };

  const draw = () => {
    const t = frameWords(chosen.language);
    const own = f.texts(chosen.language);
    dress(chosen);
    const [current] = address();
    links.replaceChildren(...f.pages.map(([name, text]) => h("li", {}, h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : undefined }, text(own), f.mark?.(own, name)))));
    alarm.hidden = !wrong;
    alarm.textContent = wrong?.() ?? "";
    top.replaceChildren(h("header", { class: "bar" }, h("strong", {}, f.name), h("nav", { "aria-label": t("nav") }, links), h("div", { class: "switches" }, switches(chosen, change))));
  };

  const change = (control: number) => {
    keep(chosen);
    void show(false).then(() => top.querySelectorAll("select")[control]?.focus());
  };

  const show = async (moved: boolean) => {
    const current = ++shown;
    leaving.abort();
    leaving = new AbortController();
    painters = [];
    draw();
    const t = f.texts(chosen.language);
    const { signal } = leaving;
    const visit: Visit<T> = {
      t, signal,
      say: (text) => { said.textContent = text; },
      left: (end) => { if (signal.aborted) end(); else signal.addEventListener("abort", end); },
      go: (hash) => { location.hash = hash; },
      recoloured: (repaint) => { if (current === shown) painters.push(repaint); },
    };
    main.setAttribute("aria-busy", "true");
    root.dataset["state"] = "drawing";
    let page: Page;
    try {
      page = await f.page(visit, ...address());
    } catch (error) {
      if (current !== shown) return;
      if ((error as { status?: number }).status === 401) return lock();
      page = { title: f.name, content: f.problem(t, error) };
    }
    if (current !== shown) return;
    const title = h("h1", { tabindex: -1 }, page.title);
    main.replaceChildren(title, h("div", {}, page.content));
    main.removeAttribute("aria-busy");
    document.title = `${page.title} – ${f.name}`;
    root.dataset["state"] = "drawn";
    if (moved) {
      scrollTo(0, 0);
      title.focus({ preventScroll: true });
    }
  };

  const lock = () => {
    shown++; // whatever comes late is not shown
    leaving.abort();
    const t = frameWords(chosen.language);
    const own = f.texts(chosen.language);
    const box = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
    main.replaceChildren(h("h1", {}, own("token.title")), h("p", {}, own("token.text")),
      h("form", { class: "controls", submit: (e) => { e.preventDefault(); f.token(box.value.trim()); } },
        h("label", { class: "select wide" }, h("span", {}, t("token.label")), box), h("button", { type: "submit" }, t("token.use"))));
    main.removeAttribute("aria-busy");
    document.title = f.name;
    root.dataset["state"] = "locked";
  };

  root.append(h("a", { class: "skip", href: "#main", click: (e) => { e.preventDefault(); main.focus(); } }, frameWords(chosen.language)("nav.skip")), top, alarm, main, said);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => painters.forEach((repaint) => repaint()));
  return { show, draw, lock, alarm: (text) => { wrong = text; draw(); }, language: () => chosen.language };
}
