// The API of the admin listener, as /api/v1/openapi.json describes it. A token is what the operator has entered, and
// stays in this tab. Without one, the browser asks for the listener's password.

import { refused } from "./api";

export const kinds = ["keys", "teams", "users", "limits"] as const;
export type Kind = (typeof kinds)[number];

/** A key, team, user or limit. */
export interface Item {
  id: string;
  version: number;
  declared?: boolean; // in the configuration's file
  name?: string;
  team?: string;
  user?: string;
  key?: string;
  models?: string[];
  expires?: string;
  disabled?: boolean;
  model?: string;
  resource?: string;
  amount?: number;
  window?: string; // as Go writes durations
  metadata?: Record<string, string>;
  old_until?: string;
  used?: number; // of a limit, in its window
  limits?: Item[]; // of another item
  secret?: string; // once
}

export interface List<T> {
  items: T[];
  next?: string;
}

export interface Change {
  version: number;
  at: string;
  by: string;
  action: string;
  kind: string;
  id: string;
  before?: Record<string, unknown>;
  after?: Record<string, unknown>;
}

/** What a group has used, by what it is grouped by. */
export type Group = Partial<Record<"key" | "team" | "user" | "model" | "day", string>> & Record<"requests" | "prompt_tokens" | "completion_tokens" | "money", number>;

/** A deployment, as this gateway reaches it. One that it does not ask yet has no state. */
export interface Deployment {
  id: string;
  declared?: boolean;
  provider: string;
  weight: number;
  models?: string[];
  state?: string;
  until?: string;
  in_flight?: number;
  calls?: number;
  failures?: number;
}

/** How the archive keeps up. */
export interface Archive {
  kind: string;
  pending: number; // records that wait
  failing: boolean;
}

const kept = "dyno.bot.admin";

export function setToken(token: string): void {
  if (token === "") sessionStorage.removeItem(kept);
  else sessionStorage.setItem(kept, token);
}

/** An address of the API. Values that are empty are left out. */
export function at(parts: string[], query: Record<string, string | number | undefined> = {}): string {
  const q = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, String(value)]])));
  return `../api/v1/${parts.map(encodeURIComponent).join("/")}${q.size > 0 ? `?${q}` : ""}`;
}

export interface Request {
  method: string;
  path: string;
  body?: unknown;
  /** The change is made only of this version of the item. */
  version?: number;
}

export async function ask<T>(r: Request, signal: AbortSignal): Promise<T> {
  const token = sessionStorage.getItem(kept);
  const headers: Record<string, string> = { ...(token && { Authorization: `Bearer ${token}` }), ...(r.version !== undefined && { "If-Match": `"${r.version}"` }), ...(r.body !== undefined && { "Content-Type": "application/json" }) };
  const response = await fetch(r.path, { method: r.method, headers, signal, cache: "no-store", ...(r.body !== undefined && { body: JSON.stringify(r.body) }) });
  if (!response.ok) throw await refused(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string, signal: AbortSignal): Promise<T> => ask<T>({ method: "GET", path }, signal);

const lengths: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9 };

/** How many seconds a duration has, as Go writes it; 0 if there is none. */
export function secondsOf(duration = ""): number {
  return [...duration.matchAll(/([\d.]+)(ms|us|µs|ns|h|m|s)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * lengths[unit!]!, 0);
}
