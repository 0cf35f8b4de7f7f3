// What is known of an answer, from event to event. Pure: nothing of a browser.

import type { Turn } from "./api";
import type { Message } from "../stream";

export type State =
  | "asked" // nothing has come yet
  | "coming"
  | "done"
  | "stopped" // by the user
  | "cut" // the stream has ended before the answer
  | "failed"; // the gateway says why

export interface Answer {
  state: State;
  text: string;
  turn: Turn;
  problem: string; // of "failed"
}

export const asked = (): Answer => ({ state: "asked", text: "", turn: {}, problem: "" });

export const ended = (a: Answer) => a.state !== "asked" && a.state !== "coming";

/** What of a turn is of the form that it should have. What comes over a network may be
 * anything. */
function turnOf(v: unknown): Turn {
  return typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Turn) : {};
}

/** Takes an event, and returns the text that it has added. Events after the end, and those
 * of unknown names, change nothing. */
export function take(a: Answer, m: Message): string {
  if (ended(a)) return "";
  let v: unknown;
  try {
    v = JSON.parse(m.data);
  } catch {
    return "";
  }
  switch (m.type) {
    case "start":
      a.turn = turnOf(v);
      a.state = "coming";
      return "";
    case "delta": {
      const text = (v as { text?: unknown } | null)?.text;
      if (typeof text !== "string") return "";
      a.state = "coming";
      a.text += text;
      return text;
    }
    case "done":
      a.turn = { ...a.turn, ...turnOf(v) };
      a.state = a.turn.stopped ? "stopped" : "done";
      return "";
    case "error":
      a.problem = String((v as { error?: { message?: unknown } } | null)?.error?.message ?? "");
      a.state = "failed";
  }
  return "";
}

/** The stream is over: who has not heard the end was cut off. */
export function over(a: Answer, stopped: boolean): void {
  if (!ended(a)) a.state = stopped ? "stopped" : "cut";
}

/** Seconds in the form that is easiest to read. */
export function seconds(v: number): string {
  if (v < 0.001) return `${Math.round(v * 1e6)} µs`;
  if (v < 1) return `${Math.round(v * 1e3)} ms`;
  return `${v.toFixed(v < 10 ? 2 : 1)} s`;
}

/** Money is in billionths. */
export const money = (v: number) => (v / 1e9).toLocaleString("en", { maximumFractionDigits: 6 });

/** How long a limit's window is, as its unit and how many of it. */
export function window(v: number): [n: number, unit: "second" | "minute" | "hour" | "day"] {
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]] as const) if (v >= length && v % length === 0) return [v / length, unit];
  return [v, "second"];
}
