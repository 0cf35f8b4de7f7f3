import { details, h, type Child } from "../dom";
import { asked, ended, over, seconds, take, type Answer } from "./answer";
import { get, halt, newName, pass, Refused, say, type Past } from "./api";
import { problem, type App, type Page } from "./app";
import type { BotTexts } from "./texts";

/** The bot whose conversations these are, in the gateway's archive. */
const bot = "web";

/** Something that the user has said, and what became of it. */
interface Item {
  query: string;
  answer: Answer;
  began: number; // milliseconds, as performance.now has them
  first?: number;
  took?: number;
  message: string; // its name at the gateway
  stop?: AbortController; // leaves the answer
  stopping?: boolean; // the gateway is asked to
  /** Shows what has changed, as long as the item is on the page. */
  view?: (added: string) => void;
}

interface Conversation {
  id: string; // "" until the gateway has named it
  name: string;
  items: Item[];
  missing: number; // earlier turns that are not shown
  read: boolean; // what is in the archive
}

const fresh = (): Conversation => ({ id: "", name: "", items: [], missing: 0, read: true });

let whose = "";
let conversations: Conversation[] = [];
let current = fresh();
let draft = "";
/** The page as it is shown now: an answer outlives the one that it was asked on. */
let shown: { app: App; changed: () => void } | null = null;

const kept = "dyno.bot.conversations";
const mostKept = 50, nameLength = 40;

/** Takes up this tab's conversations, those of the user who has logged in. */
function recall(user: string): void {
  if (whose === user) return;
  whose = user;
  conversations = [];
  current = fresh();
  try {
    const found = JSON.parse(sessionStorage.getItem(kept) ?? "{}") as { user?: string; list?: { id: string; name: string }[]; current?: string };
    if (found.user !== user) return;
    conversations = (found.list ?? []).map((c) => ({ ...fresh(), id: String(c.id), name: String(c.name), read: false }));
    current = conversations.find((c) => c.id === found.current) ?? current;
  } catch {
    // Somebody else's text.
  }
}

function remember(): void {
  conversations = conversations.slice(0, mostKept);
  sessionStorage.setItem(kept, JSON.stringify({ user: whose, current: current.id, list: conversations.map(({ id, name }) => ({ id, name })) }));
}

/** Forgets all of it: the user has logged out. */
export function leave(): void {
  for (const c of [...conversations, current]) for (const i of c.items) i.stop?.abort();
  sessionStorage.removeItem(kept);
  whose = "";
  draft = "";
  shown = null;
}

const underWay = () => current.items.find((i) => !ended(i.answer));

/** How an answer came about. */
function story(t: BotTexts, i: Item): Child {
  const { turn } = i.answer;
  const rows: [string, Child][] = [];
  const row = (name: string, value: Child) => rows.push([name, value]);
  if (turn.intent) row(t("chat.intent"), `${turn.intent.name}${turn.intent.score > 0 ? ` (${turn.intent.score.toFixed(2)})` : ""}`);
  if (turn.plugins?.length) {
    row(t("chat.plugins"), h("ul", { class: "plain" }, turn.plugins.map((p) => h("li", {}, p.name, " ",
      h("span", { class: p.outcome === "ok" ? "badge good" : "badge warn" }, t.maybe(`plugin.${p.outcome}`, p.outcome)), ` ${seconds(p.seconds)}`))));
  }
  if (turn.queue_seconds !== undefined) row(t("chat.queue"), seconds(turn.queue_seconds));
  if (i.first !== undefined) row(t("chat.first"), seconds(i.first / 1000));
  if (i.took !== undefined) row(t("chat.took"), seconds(i.took / 1000));
  if (turn.model) row(t("chat.model"), turn.upstream ? t("chat.by", { model: turn.model, upstream: turn.upstream }) : turn.model);
  const u = turn.usage;
  if (u) row(t("chat.usage"), [t("chat.tokens", { prompt: u.prompt_tokens, completion: u.completion_tokens }), u.estimated && [" ", h("span", { class: "badge warn" }, t("chat.estimated"))]]);
  const past = turn.history;
  if (past) {
    row(t("chat.history"), [h("span", { class: past.state === "kept" ? "" : "bad" }, t.maybe(`chat.${past.state}`, past.state).replace("{turn}", String(past.turn ?? ""))),
      past.turns_told > 0 && `; ${t("chat.told", { n: past.turns_told })}`]);
  }
  if (rows.length === 0) return null;
  return details(t("chat.details"), h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

/** The elements of an item, which follow it as it goes on. */
function elements(app: App, i: Item, again: (query: string) => void): HTMLElement[] {
  const { t } = app;
  const text = document.createTextNode(i.answer.text);
  const wait = h("span", { class: "wait" }, t("chat.waiting"));
  const said = h("div", { class: "text", "data-own": true }, text, wait);
  const below = h("div", {});
  const box = h("div", { class: "message bot", role: "group", "aria-label": t("chat.bot") }, h("p", { class: "who", "aria-hidden": "true" }, t("chat.bot")), said, below);
  const show = () => {
    const { state } = i.answer;
    box.dataset["state"] = state;
    wait.hidden = state !== "asked";
    if (!ended(i.answer)) box.setAttribute("aria-busy", "true");
    else box.removeAttribute("aria-busy");
    below.replaceChildren(h("div", {},
      state === "stopped" && h("p", { class: "hint" }, t(i.answer.turn.stopped ? "chat.state.stopped" : "chat.state.left")),
      state === "cut" && h("p", { class: "alarm", role: "status" }, t("chat.state.cut")),
      state === "failed" && h("p", { class: "alarm", role: "status" }, t("chat.state.failed"), " ", i.answer.problem ? h("span", { lang: "en" }, i.answer.problem) : t("failed.lost")),
      (state === "cut" || state === "failed") && h("p", {}, h("button", { type: "button", click: () => again(i.query) }, t("chat.again"))),
      ended(i.answer) && story(t, i)));
  };
  let state = "";
  i.view = (added) => {
    const low = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
    if (added) text.appendData(added);
    if (state !== i.answer.state) {
      state = i.answer.state;
      show();
    }
    if (low) scrollTo({ top: document.documentElement.scrollHeight });
  };
  show();
  state = i.answer.state;
  return [h("div", { class: "message you", role: "group", "aria-label": t("chat.you") }, h("p", { class: "who", "aria-hidden": "true" }, t("chat.you")), h("div", { class: "text", "data-own": true }, i.query)), box];
}

/** Asks, and follows the answer to its end, also while the page shows something else. */
async function ask(c: Conversation, i: Item): Promise<void> {
  const stop = new AbortController();
  i.stop = stop;
  i.began = performance.now();
  let refused: unknown;
  try {
    await say({ bot, history: c.id, message: i.message, query: i.query }, (m) => {
      const added = take(i.answer, m);
      if (added && i.first === undefined) i.first = performance.now() - i.began;
      if (ended(i.answer)) i.took ??= performance.now() - i.began;
      const { history_id: id } = i.answer.turn;
      if (!c.id && typeof id === "string") {
        c.id = id;
        conversations.unshift(c);
        remember();
        shown?.changed();
      }
      i.view?.(added);
      return ended(i.answer);
    }, () => String(i.answer.turn.id ?? ""), stop.signal);
  } catch (error) {
    refused = error;
  }
  if (!stop.signal.aborted && refused instanceof Refused && refused.status === 401) {
    c.items = c.items.filter((other) => other !== i);
    draft = i.query;
    shown?.app.locked(refused);
    return;
  }
  if (refused instanceof Refused && refused.code === "stopped") { // before there was anything of it
    i.answer.turn.stopped = true;
    over(i.answer, true);
  } else if (!stop.signal.aborted && i.answer.state === "asked") {
    i.answer.state = "failed";
    i.answer.problem = refused instanceof Refused ? refused.message : "";
  }
  over(i.answer, stop.signal.aborted);
  i.took ??= performance.now() - i.began;
  i.view?.("");
  if (i.answer.state === "done") shown?.app.say(shown.app.t("chat.answered"));
  shown?.changed();
}

/** Stops an answer: the gateway ends it, and says how far it has come. If it cannot, or the user asks again, the answer
 * is left. */
async function stopAnswer(i: Item): Promise<void> {
  const again = i.stopping;
  i.stopping = true;
  if (again || !(await halt(i.message))) i.stop?.abort();
}

/** The page to chat in. */
export function chat(app: App): Page {
  const { t } = app;
  recall(pass()?.user ?? "");
  const list = h("div", { class: "messages", role: "log", "aria-live": "off", "aria-label": t("chat.messages") });
  const picks = h("div", { class: "controls" });
  const box = h("textarea", { id: "say", rows: 2, maxlength: 16000, "aria-describedby": "say-hint", required: true, spellcheck: "true" });
  box.value = draft;
  const send = h("button", { type: "submit", class: "action" }, t("chat.send"));
  const stop = h("button", { type: "button", class: "danger", click: () => { const i = underWay(); if (i) void stopAnswer(i); } }, t("chat.stop"));

  const buttons = () => {
    const busy = underWay() !== undefined;
    send.hidden = busy;
    stop.hidden = !busy;
  };
  const changed = () => {
    if (app.signal.aborted) return;
    buttons();
    const newOne = current.id === "";
    const pick = h("select", { change: () => open(conversations.find((c) => c.id === pick.value) ?? fresh()) },
      newOne && h("option", { value: "", selected: true }, t("chat.newOne")),
      conversations.map((c) => h("option", { value: c.id, selected: c === current }, c.name || c.id)));
    picks.replaceChildren(h("label", { class: "select wide" }, h("span", {}, t("chat.conversation")), pick),
      h("button", { type: "button", disabled: newOne && current.items.length === 0, click: () => { open(fresh()); box.focus(); } }, t("chat.new")));
    if (!newOne) picks.append(h("code", { class: "hint" }, current.id));
  };
  const speak = (query: string) => {
    if (query.trim() === "" || underWay()) return;
    if (list.querySelector(".message") === null) list.replaceChildren();
    const i: Item = { query, message: newName(), answer: asked(), began: 0 };
    const c = current;
    if (c.name === "") c.name = query.trim().slice(0, nameLength);
    c.items.push(i);
    list.append(...elements(app, i, speak));
    scrollTo({ top: document.documentElement.scrollHeight });
    void ask(c, i);
    changed();
  };
  const draw = () => {
    if (current.items.length === 0 && current.missing === 0) return list.replaceChildren(h("p", { class: "hint" }, t("chat.empty")));
    list.replaceChildren(h("div", {}, current.missing > 0 && h("p", { class: "hint" }, t("chat.earlier", { n: current.missing }))), ...current.items.flatMap((i) => elements(app, i, speak)));
    scrollTo({ top: document.documentElement.scrollHeight });
  };
  const open = (c: Conversation) => {
    for (const i of current.items) delete i.view;
    current = c;
    remember();
    changed();
    draw();
    if (!c.read) void read(c);
  };
  /** Reads a conversation that was begun before the page was. */
  const read = async (c: Conversation) => {
    list.setAttribute("aria-busy", "true");
    try {
      const past = await get<Past>(`v1/bot/history?bot_id=${bot}&history_id=${encodeURIComponent(c.id)}`, app.signal);
      c.items = past.turns.map((p): Item => ({ query: p.query, message: p.id, began: 0, answer: { state: "done", text: p.reply, turn: {}, problem: "" } }));
      c.missing = past.count - past.turns.length;
      c.read = true;
      if (c === current) draw();
    } catch (error) {
      if (app.signal.aborted || app.locked(error) || c !== current) return;
      list.replaceChildren(h("p", {}, t("chat.unread")), problem(t, error));
    } finally {
      list.removeAttribute("aria-busy");
    }
  };

  shown = { app, changed };
  changed();
  draw();
  if (!current.read) void read(current);
  return {
    title: t("chat.title"),
    content: [picks, list, h("form", {
      class: "say", submit: (e) => {
        e.preventDefault();
        if (underWay()) return;
        speak(box.value);
        box.value = draft = "";
      },
    },
    h("label", { for: "say" }, t("chat.say")), box, h("div", { class: "actions" }, send, stop), h("p", { id: "say-hint", class: "hint" }, t("chat.sayHint")))],
  };
}

/** Enter sends, unless it chooses a word of an input method. */
export function enter(e: KeyboardEvent): void {
  const box = e.target;
  if (!(box instanceof HTMLTextAreaElement) || e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  box.form?.requestSubmit();
}

/** What is being written outlives the page that it is written on. */
export function wrote(e: Event): void {
  if (e.target instanceof HTMLTextAreaElement) draft = e.target.value;
}
