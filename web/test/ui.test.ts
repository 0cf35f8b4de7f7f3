import { describe, expect, test, vi } from "vitest";
import type { Live, Second, Task } from "../src/ui/api";
import { apply, clocksOf, curves, running } from "../src/ui/live";
import { inOrder, length } from "../src/ui/fleet";
import { follow, Reader, type Message } from "../src/stream";
import { en, uiTexts, zh } from "../src/ui/texts";
import { complete } from "./complete";

describe("texts of the pages", () => {
  complete(en, zh, import.meta.glob("../src/ui/*.ts", { query: "?raw", import: "default", eager: true }), /^(state|token|task|agent)\./);
  test("instants", () => {
    expect(uiTexts("en").instant(undefined)).toBe("–");
    expect(uiTexts("en").instant("2026-01-02T03:04:05Z")).toMatch(/^2 Jan 2026/);
  });
});

/** What a reader makes of a text that comes in pieces of a size. */
function read(text: string, size = text.length): Message[] {
  const reader = new Reader();
  const list: Message[] = [];
  for (let i = 0; i < text.length; i += size) list.push(...reader.take(text.slice(i, i + size)));
  return list;
}

describe("event streams", () => {
  test.each<[string, Message[]]>([
    ["data: a\n\n", [{ type: "message", data: "a", id: "" }]],
    ["\uFEFFdata:a\n\n", [{ type: "message", data: "a", id: "" }]],
    ["id: 7\nevent: x\ndata: a\ndata:  b\ndata\n\ndata: c\r\n\r\n", [{ type: "x", data: "a\n b\n", id: "7" }, { type: "message", data: "c", id: "7" }]],
    ["data: a\r\rdata: b\r\n\ndata: c\n\r\n", [{ type: "message", data: "a", id: "" }, { type: "message", data: "b", id: "" }, { type: "message", data: "c", id: "" }]],
    [": comment\nevent: x\n\n:\n\nodd: 1\ndata: a\n\n", [{ type: "message", data: "a", id: "" }]],
    ["id: 1\ndata: a\n\nid: b\0\ndata: b\n\nid\ndata: c\n\n", [{ type: "message", data: "a", id: "1" }, { type: "message", data: "b", id: "1" }, { type: "message", data: "c", id: "" }]],
    ["data: never ended\n", []],
  ])("%j", (text, want) => {
    for (const size of [text.length, 1, 2, 3, 5]) expect(read(text, size)).toEqual(want);
  });
  test("retry", () => {
    const reader = new Reader();
    reader.take("retry: 25\nretry: x\nretry: -1\n\n");
    expect(reader.retry).toBe(25);
  });
});

/** An answer that is a stream of these pieces and then ends, or breaks. */
function answer(pieces: string[], broken = false): Response {
  return new Response(new ReadableStream({
    start(c) {
      for (const p of pieces) c.enqueue(new TextEncoder().encode(p));
      if (broken) c.error(new Error("broken"));
      else c.close();
    },
  }), { status: 200 });
}

describe("following", () => {
  test("it comes back where it was, for all there is after a gap, and ends when it is refused", async () => {
    vi.useFakeTimers();
    const answers = [
      () => answer(["id: 1\nevent: state\ndata: s\n\nretry: 5\n\n", "id: 2\nevent: second\ndata: a\n\n"]),
      () => new Response("busy", { status: 503 }),
      () => answer(["event: gap\ndata: {}\n\nid: 9\nevent: second\ndata: not meant\n\n"]),
      () => answer(["id: 10\nevent: state\ndata: all\n\n"]),
      () => new Response("{}", { status: 401 }),
    ];
    const asked: (string | null)[] = [];
    vi.stubGlobal("fetch", async (_: string, o: RequestInit) => {
      asked.push(new Headers(o.headers).get("Last-Event-ID"));
      return answers.shift()!();
    });
    const got: string[] = [], connected: boolean[] = [];
    let refused = 0;
    const ended = follow({ path: "/", headers: () => ({}), message: (m) => got.push(m.data), connected: (is) => connected.push(is), refused: (s) => { refused = s; } }, new AbortController().signal);
    await vi.runAllTimersAsync();
    await ended;
    expect(got).toEqual(["s", "a", "all"]);
    expect(asked).toEqual([null, "2", "2", null, "10"]);
    expect(refused).toBe(401);
    expect(connected).toEqual([true, false, false, true, false, true, false]);
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });
  test("it ends when it is told to, and does not call that a lost connection", async () => {
    const end = new AbortController(), connected: boolean[] = [];
    vi.stubGlobal("fetch", async () => { end.abort(); throw new Error("lost"); });
    await follow({ path: "/", headers: () => ({}), message: () => {}, connected: (is) => connected.push(is), refused: () => {} }, end.signal);
    expect(connected).toEqual([]);
    vi.unstubAllGlobals();
  });
});

const live = (): Live => ({ id: "x", name: "x", experiment: "x.yaml", short: false, started_at: "2026-01-01T00:00:00Z", seconds: [], trials: [] });
const second = (trial: number, at: number, latency?: Second["latency"]): Second =>
  ({ at: new Date(Date.parse("2026-01-01T00:00:00Z") + 1000 * at).toISOString(), trial, trial_seconds: at, length_seconds: 1, throughput_per_second: 100 * at, failed: 0, ...(latency ? { latency } : {}) });
const message = (type: string, value: unknown): Message => ({ type, data: JSON.stringify(value), id: "" });

describe("what is known of a run", () => {
  test("from its begin to its end", () => {
    let known = apply(null, message("state", { run: null }));
    expect(running(known)).toBe(false);
    known = apply(known, message("second", second(1, 1)));
    expect(known).toBeNull();
    known = apply(known, message("run", live()));
    expect(running(known)).toBe(true);
    known = apply(known, message("begin", { number: 1, variant: "v" }));
    known = apply(known, message("second", second(1, 1)));
    expect(known?.trial?.variant).toBe("v");
    known = apply(known, message("end", { number: 1, variant: "v", flags: null }));
    expect(known?.trial).toBeUndefined();
    known = apply(known, message("stopping", { ...live(), stopping: true }));
    expect([known?.stopping, known?.seconds.length, known?.trials.length]).toEqual([true, 1, 1]);
    known = apply(known, message("ended", { ...live(), outcome: { code: 0 } }));
    expect([running(known), known?.seconds.length]).toEqual([false, 1]);
  });
  test("no more than is kept", () => {
    const known = live();
    for (let i = 0; i < 1805; i++) apply(known, message("second", second(1, i)));
    for (let i = 0; i < 1003; i++) apply(known, message("end", { number: i }));
    expect([known.seconds.length, known.trials.length, known.omitted]).toEqual([1800, 1000, 3]);
  });
  test("curves have a hole between trials", () => {
    const l = { ...live(), seconds: [second(1, 1), second(1, 2, { response: { p50_seconds: 0.1, p99_seconds: 0.2, max_seconds: 0.3 } }), second(2, 4, { service: { p50_seconds: 1, max_seconds: 2 } })] };
    expect(clocksOf(l.seconds)).toEqual(["response", "service"]);
    expect(curves(l, "response")).toEqual({ time: [1, 2, 3, 4], throughput: [100, 200, null, 400], p50: [null, 0.1, null, null], p99: [null, 0.2, null, null], max: [null, 0.3, null, null] });
    expect(curves(l, "toString").p50).toEqual([null, null, null, null]);
  });
});

describe("tasks of a fleet", () => {
  test("what runs comes first, and what ended last comes before what ended earlier", () => {
    const task = (id: string, state: Task["state"], ended_at?: string): Task =>
      ({ id, name: "n", priority: 0, state, ...(ended_at ? { runs: [{ worker: "w", began_at: ended_at, ended_at, exit_code: 0 }] } : {}) });
    const list = [task("d", "done", "2026-01-01T00:00:00Z"), task("b", "queued"), task("c", "failed", "2026-01-02T00:00:00Z"), task("e", "cancelled"), task("a", "running")];
    expect(inOrder(list).map((x) => x.id).join("")).toBe("abcde");
  });
  test.each([[undefined, "–"], [0, "–"], [0.2, "1 s"], [119.4, "119 s"], [600, "10 min"]])("%s seconds", (seconds, want) => expect(length(seconds)).toBe(want));
});
