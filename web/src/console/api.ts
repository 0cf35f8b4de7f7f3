// The control plane's API, as /v1/openapi.json describes it. The token is what the reader
// has entered, and stays in this tab.

export type Kind = "config" | "policy";

/** The folder of a kind in the API. */
export const folders: Record<Kind, string> = { config: "configs", policy: "policies" };

/** A content: a text, or other bytes in base64. */
export interface Content {
  content?: string;
  content_base64?: string;
}

/** A release has content, or rules of a policy. */
export interface Release extends Content {
  rules?: unknown[];
  labels?: Record<string, string[]>;
  percent?: number;
  since?: number;
}

/** A policy or a configuration. */
export interface Doc extends Content {
  namespace: string;
  name: string;
  labels?: Record<string, string>;
  version: number;
  changed_at: string;
  changed_by: string;
  rules?: unknown[];
  content_type?: string;
  secret?: boolean;
  release?: Release | undefined;
}

export type Health = "passing" | "warning" | "critical";

export interface Instance {
  id: string;
  address: string;
  port: number;
  zone?: string;
  weight: number;
  status: "up" | "down" | "draining";
  ttl_seconds: number;
  metadata?: Record<string, string>;
  checks?: { name?: string; type: string; interval_seconds?: number }[];
  deregister_after_seconds?: number;
  maintenance?: string; // why an operator keeps requests away
  health?: Health;
  results?: { name: string; health: Health; output?: string; since: string }[];
  holder?: string;
  version: number;
  changed_at: string;
  changed_by: string;
  overdue?: boolean; // in lists
  heard_seconds?: number;
}

export interface Holding {
  client: string;
  connected: boolean;
  state: "sent" | "applied" | "refused";
  version: number;
  running_version: number;
  reason?: string;
  at: string;
}

export interface Rollout {
  kind: Kind;
  name: string;
  version: number;
  clients: number;
  applied: number;
  refused: number;
  pending: number;
  versions: Record<string, number>;
  holdings: Holding[];
  unrecorded: number;
}

/** Who calls a service. */
export interface Call {
  from: string;
  service: string;
  reports: number;
  requests_per_second: number;
  errors_per_second: number;
  active: number;
}

interface Changed {
  version: number;
  changed_at: string;
  changed_by: string;
}

/** A program's life, which locks are held by. */
export interface Session extends Changed {
  id: string;
  name?: string; // for people
  ttl_seconds: number;
}

export interface Lock extends Changed {
  name: string;
  session: string;
  holder?: string; // the session's name
  value?: string;
  token: number;
  since: string;
}

export interface Counter extends Changed {
  name: string;
  value: number | string; // digits where a number would be rounded
}

export interface Audit {
  at: string;
  who: string;
  from: string;
  act: string;
  kind: Kind | "instance" | "session" | "lock" | "counter" | "principal" | "role";
  namespace: string;
  name: string;
  id?: string;
  old_version?: number;
  new_version?: number;
}

export interface List<T> {
  items: T[];
  next?: string;
  /** What to watch from, so that no change is missed. */
  watch: string;
}

/** An answer that is a problem (RFC 9457). */
export class Problem extends Error {
  constructor(readonly status: number, readonly kind: string, detail: string, readonly faults: Note[] = []) {
    super(detail);
  }
}

const kept = "dyno.control.token";

export function setToken(token: string): void {
  if (token === "") sessionStorage.removeItem(kept);
  else sessionStorage.setItem(kept, token);
}

/** Without a token, a client certificate may do, or nothing may be needed. */
export function authorization(): Record<string, string> {
  const token = sessionStorage.getItem(kept);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** An address of the API. Values that are empty are left out. */
export function at(parts: (string | number)[], query: Record<string, string | number | boolean | undefined> = {}): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "" && value !== false) q.set(name, String(value));
  return `/v1/${parts.map((p) => encodeURIComponent(p)).join("/")}${q.size > 0 ? `?${q}` : ""}`;
}

/** What is said of a place in a document: a fault, or what a kind of data plane cannot do. */
export interface Note {
  pointer: string;
  detail: string;
  by?: string; // the kind of data plane
}

export interface Answer<T> {
  value: T;
  tag: string; // the entity tag
  limitations: Note[];
}

export interface Request {
  method: string;
  path: string;
  body?: unknown;
  /** The change is made only of what has this entity tag; "" is of nothing. */
  of?: string;
}

export async function ask<T>(r: Request, signal: AbortSignal): Promise<Answer<T>> {
  const headers: Record<string, string> = { ...authorization() };
  if (r.body !== undefined) headers["Content-Type"] = "application/json";
  if (r.of !== undefined) headers[r.of === "" ? "If-None-Match" : "If-Match"] = r.of || "*";
  const response = await fetch(r.path, { method: r.method, headers, signal, cache: "no-store", ...(r.body === undefined ? {} : { body: JSON.stringify(r.body) }) });
  const text = await response.text();
  if (!response.ok) throw problemOf(response.status, text);
  return { value: text === "" ? (undefined as T) : sealed(JSON.parse(exact(text)) as T), tag: response.headers.get("ETag") ?? "", limitations: limitationsOf(response.headers.get("Dyno-Limitation") ?? "") };
}

/** Makes a large value of a counter a text: a number has 53 bits. A quotation mark inside a text has a backslash before it, so no text
 * is changed. */
export const exact = (text: string): string => text.replaceAll(/"value":\s*(-?\d{16,})(?=[,}\s])/g, '"value":"$1"');

/** The fields that say what data planes cannot do: KIND POINTER TEXT, which the browser has joined by commas. */
export function limitationsOf(text: string): Note[] {
  return text.split(/, (?=\S+ #\/)/).flatMap((one) => {
    const [, by, pointer, detail] = /^(\S+) (#\S*) (.*)$/.exec(one) ?? [];
    return by && pointer && detail ? [{ by, pointer, detail }] : [];
  });
}

export const get = async <T>(path: string, signal: AbortSignal): Promise<T> => (await ask<T>({ method: "GET", path }, signal)).value;

export function problemOf(status: number, text: string): Problem {
  try {
    const p = JSON.parse(text) as { type: string; detail: string; errors?: Note[] };
    return new Problem(status, p.type.replace(/^.*:/, ""), p.detail, p.errors);
  } catch {
    return new Problem(status, "", text.trim() || String(status));
  }
}

/** Leaves the content out of what is secret, even where the reader might see it. */
function sealed<T>(value: T): T {
  const doc = value as Partial<Doc> | undefined;
  if (doc?.secret) {
    for (const one of [doc, doc.release]) if (one) Object.assign(one, { content: "", content_base64: undefined });
  }
  return value;
}
