// The gateway's API, as docs/services/bot-api.md describes it. The token stays in this tab; the API
// key that it was given for is kept nowhere.

import { Reader, type Message } from "../stream";

/** Who has logged in, and until when. */
export interface Pass {
  token: string;
  user: string;
  expires: number; // milliseconds since 1970
}

export interface Plugin {
  name: string;
  outcome: string;
  seconds: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  estimated: boolean;
}

/** What "start" and "done" say of a turn. */
export interface Turn {
  id?: string;
  history_id?: string;
  intent?: { name: string; score: number };
  plugins?: Plugin[];
  queue_seconds?: number;
  model?: string;
  upstream?: string;
  usage?: Usage;
  history?: { state: string; turn?: number; turns_told: number };
  stopped?: boolean; // by the user: the text is what was said until then
}

export interface Limit {
  resource: string;
  amount: number;
  window_seconds: number; // 0: for good
  used: number | null; // not known
}

export interface KeyUsage {
  key: string;
  models?: string[];
  limits: Limit[];
  today: { requests: number; tokens: number; money: number } | null;
}

export interface Past {
  history_id: string;
  count: number;
  turns: { id: string; turn: number; query: string; reply: string }[];
}

/** An answer that is an error. */
export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly code = "", readonly after = 0, readonly param = "") {
    super(message);
  }
}

const kept = "dyno.bot.pass";

/** The pass of this tab, as long as it is good. */
export function pass(): Pass | null {
  try {
    const p = JSON.parse(sessionStorage.getItem(kept) ?? "null") as Pass | null;
    return p && typeof p.token === "string" && p.expires > Date.now() ? p : null;
  } catch {
    return null;
  }
}

export function forget(): void {
  sessionStorage.removeItem(kept);
}

export async function refused(r: Response): Promise<Refused> {
  const text = await r.text();
  const after = Number(r.headers.get("Retry-After") ?? 0) || 0;
  try {
    const e = (JSON.parse(text) as { error: { message: string; code?: string | null; param?: string | null } }).error;
    return new Refused(r.status, String(e.message), e.code ?? "", after, e.param ?? "");
  } catch {
    return new Refused(r.status, text.trim().slice(0, 500) || r.statusText, "", after);
  }
}

function authorization(): Record<string, string> {
  const p = pass();
  return p ? { Authorization: `Bearer ${p.token}` } : {};
}

export async function login(key: string, user: string): Promise<Pass> {
  const r = await fetch("v1/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ api_key: key, user_id: user }), cache: "no-store" });
  if (!r.ok) throw await refused(r);
  const t = (await r.json()) as { access_token: string; user_id: string; expires_in: number };
  const p = { token: t.access_token, user: t.user_id, expires: Date.now() + 1000 * t.expires_in };
  sessionStorage.setItem(kept, JSON.stringify(p));
  return p;
}

export async function get<T>(path: string, signal: AbortSignal): Promise<T> {
  const r = await fetch(path, { headers: authorization(), cache: "no-store", signal });
  if (!r.ok) throw await refused(r);
  return (await r.json()) as T;
}

/** A name that no other message has. Browsers have randomUUID on encrypted pages only. */
export function newName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** Has the gateway stop the answer to a message. False if there is none under way, or the gateway does not answer. */
export async function halt(message: string): Promise<boolean> {
  try {
    return (await fetch(`v1/bot/chat/${message}`, { method: "DELETE", headers: authorization(), cache: "no-store" })).status === 204;
  } catch {
    return false;
  }
}

/** Milliseconds before each further try to read on in an answer. */
const pauses = [300, 1000, 3000];

/** Says something and calls back with every event of the answer, which tells whether that
 * was the last. Where the gateway numbers its events, an answer whose connection was lost
 * is read on. It returns when there is no more, throws when there is no answer, or the
 * connection was lost for good, or signal has ended it. */
export async function say(q: { bot: string; history: string; message: string; query: string }, each: (m: Message) => boolean, id: () => string, signal: AbortSignal): Promise<void> {
  let response = await fetch("v1/bot/chat", {
    method: "POST", headers: { ...authorization(), "Content-Type": "application/json" }, cache: "no-store", signal,
    body: JSON.stringify({ bot_id: q.bot, history_id: q.history, message_id: q.message, query: q.query, stream: true }),
  });
  if (!response.ok || !response.body) throw await refused(response);
  let last = "";
  let lost: unknown;
  for (const pause of [0, ...pauses]) {
    lost = undefined;
    try {
      if (pause > 0) {
        await new Promise((resume) => setTimeout(resume, pause));
        response = await fetch(`v1/bot/chat/${encodeURIComponent(id())}/events`, { headers: { ...authorization(), "Last-Event-ID": last }, cache: "no-store", signal });
        if (response.status !== 200 || !response.body) return; // it is not kept any more, or there is nothing behind it
      }
      const events = new Reader();
      const body = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await body.read();
        if (done) break;
        for (const m of events.take(value)) {
          last = m.id || last;
          if (each(m)) return;
        }
      }
    } catch (error) {
      lost = error;
    }
    if (signal.aborted || last === "" || id() === "") break;
  }
  if (lost) throw lost;
}
