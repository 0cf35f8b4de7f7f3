// The page of users: the login, the chat, and what their API key may use.

import { h } from "../dom";
import { dress, frameWords, keep, settings, switches } from "../settings";
import { forget, login, pass, Refused } from "./api";
import { problem, type App, type Page } from "./app";
import { chat, enter, leave, wrote } from "./chat";
import { botTexts, type BotKey } from "./texts";
import { usage } from "./usage";

const chosen = settings();
const pages: [string, BotKey][] = [["chat", "nav.chat"], ["usage", "nav.usage"]];
let leaving = new AbortController();
let expired = false;
let root: HTMLElement;

const said = h("p", { class: "said", "aria-live": "polite" });
const main = h("main", { id: "main", tabindex: -1 });
const top = h("div");

const nameOf = (hash: string) => hash.replace(/^#\/?/, "").split(/[/?]/)[0] || "chat";

function frame(): void {
  const t = botTexts(chosen.language);
  dress(chosen);
  const p = pass();
  const name = nameOf(location.hash);
  top.replaceChildren(h("header", { class: "bar" }, h("strong", {}, "dyno bot"),
    p && h("nav", { "aria-label": frameWords(chosen.language)("nav") }, h("ul", {}, pages.map(([page, key]) => h("li", {}, h("a", { href: `#/${page}`, "aria-current": page === name ? "page" : undefined }, t(key)))))),
    h("div", { class: "switches" },
      p && [h("span", { class: "hint user" }, t("nav.user", { user: p.user, time: t.clock(p.expires) })), h("button", { type: "button", click: out }, t("nav.logout"))],
      switches(chosen, change))));
}

function out(): void {
  leave();
  forget();
  expired = false;
  show(true);
}

function change(control: number): void {
  keep(chosen);
  show(false);
  top.querySelectorAll("select")[control]?.focus();
}

/** Asks who is there. The API key goes to the gateway once, and nowhere else. */
function entrance(): Page {
  const t = botTexts(chosen.language);
  const key = h("input", { type: "password", id: "key", autocomplete: "off", spellcheck: "false", "aria-describedby": "key-hint" });
  const user = h("input", { type: "text", id: "user", autocomplete: "username", maxlength: 128, required: true });
  const go = h("button", { type: "submit", class: "action" }, t("login.go"));
  const failed = h("div");
  const submit = async (e: Event) => {
    e.preventDefault();
    go.disabled = true;
    try {
      await login(key.value.trim(), user.value.trim());
      key.value = "";
      expired = false;
      show(true);
    } catch (error) {
      failed.replaceChildren(problem(t, error));
      go.disabled = false;
    }
  };
  return {
    title: t("login.title"),
    content: h("form", { class: "login", submit: (e) => void submit(e) }, expired && h("p", { role: "status", class: "alarm" }, t("login.expired")), h("p", {}, t("login.text")),
      h("label", { for: "key" }, t("login.key")), key, h("p", { id: "key-hint", class: "hint" }, t("login.keyHint")),
      h("label", { for: "user" }, t("login.user")), user, h("div", { class: "actions" }, go), failed),
  };
}

/** Shows the page that the address names. */
function show(moved: boolean): void {
  leaving.abort();
  leaving = new AbortController();
  frame();
  const { signal } = leaving;
  const t = botTexts(chosen.language);
  const app: App = {
    t, signal,
    say: (text) => { said.textContent = text; },
    locked: (error) => {
      if (!(error instanceof Refused) || error.status !== 401) return false;
      forget();
      expired = true;
      show(true);
      return true;
    },
  };
  const inside = pass() !== null;
  const name = nameOf(location.hash);
  let page: Page = { title: t("unknownPage"), content: h("a", { href: "#/chat" }, t("nav.chat")) };
  if (!inside) page = entrance();
  else if (name === "chat") page = chat(app);
  else if (name === "usage") page = usage(app);
  const title = h("h1", { tabindex: -1 }, page.title);
  main.replaceChildren(title, h("div", {}, page.content));
  document.title = `${page.title} – dyno bot`;
  root.dataset["state"] = inside ? "drawn" : "locked";
  if (moved) title.focus({ preventScroll: true });
}

/** Fills the page's root. */
export function users(host: HTMLElement): void {
  root = host;
  root.append(h("a", { class: "skip", href: "#main", click: (e) => { e.preventDefault(); main.focus(); } }, frameWords(chosen.language)("nav.skip")), top, main, said);
  root.addEventListener("keydown", enter);
  root.addEventListener("input", wrote);
  addEventListener("hashchange", () => show(true));
  show(false);
}
