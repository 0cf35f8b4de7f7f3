import "uplot/dist/uPlot.min.css";
import "../style.css";
import "./ui.css";
import { h, select } from "../dom";
import { languages, preferred, type Language } from "../i18n";
import { authorization, Refused, refused, setToken, takeToken, type Live } from "./api";
import { link, problem, type App, type Page, type Theme } from "./app";
import { compare } from "./compare";
import { experiments } from "./experiments";
import { past } from "./history";
import { apply, running } from "./live";
import { run } from "./run";
import { runs } from "./runs";
import { follow } from "./stream";
import { uiTexts, type UIKey } from "./texts";
import { watch } from "./watch";

const pages: [string, UIKey][] = [["runs", "nav.runs"], ["live", "nav.live"], ["experiments", "nav.experiments"]];

interface Settings {
  language: Language;
  theme: Theme;
}

const kept = "dyno.settings";

function settings(): Settings {
  const usual: Settings = { language: preferred(navigator.languages), theme: "auto" };
  try {
    const found = JSON.parse(localStorage.getItem(kept) ?? "{}") as Partial<Settings>;
    if (languages.some(([l]) => l === found.language)) usual.language = found.language!;
    if (found.theme === "light" || found.theme === "dark") usual.theme = found.theme;
  } catch {
    // A browser that keeps nothing, or somebody else's text.
  }
  return usual;
}

takeToken();
const chosen = settings();
const root = document.getElementById("ui")!;
let live: Live | null = null;
let lost = false;
let watchers: ((kind: string) => void)[] = [];
let painters: (() => void)[] = [];
let leaving = new AbortController();
let shown = 0;

const said = h("p", { class: "said", "aria-live": "polite" });
const alarm = h("p", { class: "alarm", role: "status", hidden: true });
const links = h("ul");
const main = h("main", { id: "main", tabindex: -1 });
const top = h("div");

function say(text: string): void {
  said.textContent = text;
}

/** Where the address leads to. */
async function pageOf(app: App, hash: string): Promise<Page> {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...ids] = path.split("/").map(decodeURIComponent);
  const q = new URLSearchParams(query);
  switch (name) {
    case "":
    case "runs":
      return runs(app, q);
    case "run":
      return run(app, ids.join("/"));
    case "compare":
      return compare(app, ids[0] ?? "", ids[1] ?? "");
    case "history":
      return past(app, ids.join("/"), q);
    case "live":
      return watch(app);
    case "experiments":
      return experiments(app);
  }
  return { title: app.t("unknownPage"), content: link("#/runs", app.t("nav.runs")) };
}

function frame(): void {
  const t = uiTexts(chosen.language);
  document.documentElement.lang = chosen.language === "zh" ? "zh-CN" : "en";
  if (chosen.theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen.theme;
  const current = location.hash.replace(/^#\/?/, "").split(/[/?]/)[0] || "runs";
  links.replaceChildren(...pages.map(([name, key]) => h("li", {}, h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : undefined }, t(key),
    name === "live" && running(live) && h("span", { class: "pulse", role: "img", "aria-label": t("nav.running") })))));
  alarm.hidden = !lost;
  alarm.textContent = lost ? t("lost") : "";
  top.replaceChildren(h("header", { class: "bar" }, h("strong", {}, "dyno"), h("nav", { "aria-label": t("nav") }, links), h("div", { class: "switches" },
    select(t.report("language"), languages, chosen.language, (l) => change({ language: l })),
    select<Theme>(t.report("theme"), [["auto", t.report("theme.auto")], ["light", t.report("theme.light")], ["dark", t.report("theme.dark")]], chosen.theme, (theme) => change({ theme })))));
}

function change(to: Partial<Settings>): void {
  const control = to.language ? 0 : 1;
  Object.assign(chosen, to);
  try {
    localStorage.setItem(kept, JSON.stringify(chosen));
  } catch {
    // It holds until the page is closed.
  }
  void show(false).then(() => top.querySelectorAll("select")[control]?.focus());
}

/** Shows the page that the address names. */
async function show(moved: boolean): Promise<void> {
  const current = ++shown;
  leaving.abort();
  leaving = new AbortController();
  watchers = [];
  painters = [];
  frame();
  const t = uiTexts(chosen.language);
  const { signal } = leaving;
  const app: App = {
    t, signal, say,
    get live() { return live; },
    follow: (f) => { if (current === shown) watchers.push(f); },
    left: (f) => { if (signal.aborted) f(); else signal.addEventListener("abort", f); },
    go: (hash) => { location.hash = hash; },
    recoloured: (f) => { if (current === shown) painters.push(f); },
  };
  main.setAttribute("aria-busy", "true");
  root.dataset["state"] = "drawing";
  let page: Page;
  try {
    page = await pageOf(app, location.hash);
  } catch (error) {
    if (current !== shown) return;
    if (error instanceof Refused && error.status === 401) return locked();
    page = { title: "dyno", content: problem(app, error) };
  }
  if (current !== shown) return;
  const title = h("h1", { tabindex: -1 }, page.title);
  main.replaceChildren(title, h("div", {}, page.content));
  main.removeAttribute("aria-busy");
  document.title = `${page.title} – dyno`;
  root.dataset["state"] = "drawn";
  if (moved) {
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
  }
}

/** Asks for the token: whoever has come without it, or with that of an earlier start. */
function locked(): void {
  const t = uiTexts(chosen.language);
  const box = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true });
  main.replaceChildren(h("h1", {}, t("token.title")), h("p", {}, t("token.text")),
    h("form", { class: "controls", submit: (e) => { e.preventDefault(); setToken(box.value.trim()); begin(); } },
      h("label", { class: "select wide" }, h("span", {}, t("token.label")), box), h("button", { type: "submit" }, t("token.use"))));
  main.removeAttribute("aria-busy");
  document.title = "dyno";
  root.dataset["state"] = "locked";
}

let following = new AbortController();

/** Follows the run under way, whatever page is shown. */
function begin(): void {
  following.abort();
  following = new AbortController();
  void follow({
    path: "/api/live", headers: authorization,
    message: (m) => {
      const before = running(live);
      live = apply(live, m);
      for (const f of watchers) f(m.type);
      if (before !== running(live)) frame();
    },
    connected: (is) => {
      if (lost === is) {
        lost = !is;
        frame();
      }
    },
    refused: (status, text) => { if (refused(status, text).status === 401) locked(); },
  }, following.signal);
  void show(false);
}

root.append(h("a", { class: "skip", href: "#main", click: (e) => { e.preventDefault(); main.focus(); } }, uiTexts(chosen.language)("nav.skip")), top, alarm, main, said);
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) { // the address was opened once more
    takeToken();
    begin();
  } else void show(true);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => painters.forEach((f) => f()));
begin();
