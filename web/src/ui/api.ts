// The server's API, as package ui documents it. The token comes with the address that
// dyno ui prints, and stays in this tab.

import type { Answer, Estimate, Flag, Message, Run as Judged } from "../document";
import type { Annotations } from "../report/history";

/** A run with what it comes to. */
export interface Document extends Judged {
  answer: Answer;
  /** of what thresholds and claims measured, by their text */
  units: Record<string, string>;
  annotations: Annotations;
  /** another run, by its ID */
  baseline?: string;
}

export type State = "valid" | "disturbed" | "invalid" | "incomplete" | "broken" | "running";
export const states: State[] = ["valid", "disturbed", "invalid", "incomplete", "broken", "running"];

export interface Run extends Annotations {
  id: string;
  name?: string;
  question?: string;
  started_at?: string;
  finished_at?: string;
  state: State;
  reason?: Message;
  short?: boolean;
  rounds: number;
  metric?: string;
  variants: string[];
  flags: number;
  thresholds_broken: number;
  results: { base: string; variant: string; ratio: Estimate; verdict: string }[];
  figures: { variant: string; figure: Estimate }[];
  report?: string;
}

export interface RunList {
  runs: Run[];
  matched: number;
  total: number;
  pending: number;
  truncated?: boolean;
  experiments: string[];
}

export interface Fault {
  line?: number;
  column?: number;
  field?: string;
  problem: string;
  hint?: string;
}

export interface Experiment {
  id: string;
  name?: string;
  question?: string;
  variants: string[];
  variables?: Record<string, string>;
  rounds: number;
  load_seconds: number;
  short?: { rounds: number; load_seconds: number };
  warnings: Fault[];
  faults: Fault[];
}

export interface ExperimentList {
  experiments: Experiment[];
  truncated?: boolean;
  startable: boolean;
}

export interface Summary {
  name: string;
  started_at: string;
  dyno_version?: string;
  complete: boolean;
  valid: boolean;
  rounds: number;
}

export interface Difference {
  caveat: Message;
  old: Summary;
  new: Summary;
  metric: string;
  margin: number;
  only_old?: string[];
  only_new?: string[];
  disparities: { where: string; variant?: string; what: Message; old: Message; new: Message }[] | null;
  comparisons: {
    variant: string;
    metric: string;
    primary?: boolean;
    old: Estimate;
    new: Estimate;
    ratio: Estimate;
    p?: number;
    adjusted_p?: number;
    equivalence?: Estimate;
    detectable?: number;
    verdict: string;
    detail?: Message;
  }[];
  notes?: Message[];
}

export interface Begin {
  number: number;
  of?: number;
  round: number;
  rounds: number;
  variant: string;
  purpose?: string;
  rate_per_second?: number;
}

export interface Latency {
  p50_seconds: number;
  p90_seconds?: number;
  p99_seconds?: number;
  p999_seconds?: number;
  max_seconds: number;
}

export interface Second {
  at: string;
  trial: number;
  trial_seconds: number;
  length_seconds: number;
  throughput_per_second: number;
  failed: number;
  latency?: Record<string, Latency>;
}

export interface TrialEnd {
  number: number;
  round: number;
  variant: string;
  purpose?: string;
  complete: boolean;
  error?: string;
  throughput_per_second?: number;
  failed: number;
  latency: { p50_seconds?: number; p99_seconds?: number };
  clock: string;
  flags: Flag[] | null;
}

export interface Live {
  id: string;
  name: string;
  experiment: string;
  short: boolean;
  set?: Record<string, string>;
  started_at: string;
  ended_at?: string;
  stopping?: boolean;
  elsewhere?: boolean;
  outcome?: { code: number; message?: string };
  trial?: Begin;
  seconds: Second[];
  trials: TrialEnd[];
  omitted?: number;
}

export interface Attempt {
  worker: string;
  began_at: string;
  ended_at?: string;
  exit_code: number;
  message?: string;
  result?: string;
}

export interface Task {
  id: string;
  name: string;
  priority: number;
  due_at?: string;
  every?: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled" | "broken";
  predicted_seconds?: number;
  runs?: Attempt[];
}

export interface Agent {
  name: string;
  address: string;
  labels: Record<string, string> | null;
  cpus: number;
  version: string;
  state: "ready" | "cordoned" | "held" | "reserved" | "broken";
}

export interface Fleet {
  named: boolean;
  agents?: Agent[];
  tasks?: Task[];
}

/** An answer that is an error. */
export class Refused extends Error {
  constructor(readonly status: number, readonly why: Message, readonly hint?: Message, readonly faults: Fault[] = []) {
    super(`${status} ${why.kind}`);
  }
}

const kept = "dyno.token";

/** Takes the token out of the address, where it would be seen and kept. */
export function takeToken(): void {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(kept, found[1]!);
  history.replaceState(null, "", location.pathname);
}

export function setToken(token: string): void {
  sessionStorage.setItem(kept, token);
}

export function authorization(): Record<string, string> {
  return { Authorization: `Bearer ${sessionStorage.getItem(kept) ?? ""}` };
}

export async function call<T>(method: "GET" | "POST", path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const options: RequestInit = { method, headers: { ...authorization(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) } };
  if (body !== undefined) options.body = JSON.stringify(body);
  if (signal) options.signal = signal;
  const response = await fetch(path, options);
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as T;
  throw refused(response.status, text);
}

export function refused(status: number, text: string): Refused {
  try {
    const r = JSON.parse(text) as { error: Message; hint?: Message; faults?: Fault[] };
    return new Refused(status, r.error, r.hint, r.faults);
  } catch {
    return new Refused(status, { kind: "verbatim", values: { words: text.trim() || String(status) } });
  }
}

export const pathOf = (id: string) => `/api/runs/${encodeURIComponent(id)}`;
