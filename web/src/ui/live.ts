import type { Begin, Live, Second, TrialEnd } from "./api";
import type { Message } from "../stream";

// As the server keeps them.
const keptSeconds = 1800, keptTrials = 1000;

/** What is known of the run under way, after one more event. What was known before is
 * changed where that is less work. */
export function apply(known: Live | null, m: Message): Live | null {
  const value: unknown = JSON.parse(m.data);
  switch (m.type) {
    case "state":
      return (value as { run: Live | null }).run;
    case "run":
      return value as Live;
  }
  if (!known) return null;
  switch (m.type) {
    case "begin":
      known.trial = value as Begin;
      break;
    case "second":
      known.seconds.push(value as Second);
      if (known.seconds.length > keptSeconds) known.seconds.shift();
      break;
    case "end":
      delete known.trial;
      known.trials.push(value as TrialEnd);
      if (known.trials.length > keptTrials) {
        known.trials.shift();
        known.omitted = (known.omitted ?? 0) + 1;
      }
      break;
    case "stopping":
    case "ended": {
      const { seconds, trials, omitted } = known;
      return { ...(value as Live), seconds, trials, ...(omitted === undefined ? {} : { omitted }) };
    }
  }
  return known;
}

export const running = (l: Live | null): boolean => l !== null && l.outcome === undefined;

/** The clocks that seconds have, in the order of preference. */
export function clocksOf(seconds: Second[]): string[] {
  const all = new Set(seconds.flatMap((s) => Object.keys(s.latency ?? {})));
  return ["delivery", "response", "service"].filter((c) => all.has(c));
}

export interface Curves {
  time: number[];
  throughput: (number | null)[];
  p50: (number | null)[];
  p99: (number | null)[];
  max: (number | null)[];
}

/** What plots show: seconds since the run's begin, with a hole between trials. */
export function curves(l: Live, clock: string): Curves {
  const c: Curves = { time: [], throughput: [], p50: [], p99: [], max: [] };
  const start = Date.parse(l.started_at);
  let before: Second | undefined;
  for (const s of l.seconds) {
    const at = (Date.parse(s.at) - start) / 1000;
    if (before && before.trial !== s.trial) {
      c.time.push((c.time.at(-1)! + at) / 2);
      for (const list of [c.throughput, c.p50, c.p99, c.max]) list.push(null);
    }
    const latency = s.latency && Object.hasOwn(s.latency, clock) ? s.latency[clock] : undefined;
    c.time.push(at);
    c.throughput.push(s.throughput_per_second);
    c.p50.push(latency?.p50_seconds ?? null);
    c.p99.push(latency?.p99_seconds ?? null);
    c.max.push(latency?.max_seconds ?? null);
    before = s;
  }
  return c;
}
