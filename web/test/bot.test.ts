import { describe, expect, test } from "vitest";
import { asked, ended, money, over, seconds, take, window } from "../src/bot/answer";
import { secondsOf } from "../src/bot/manage";
import { own, ownZh } from "../src/bot/operatortexts";
import { botTexts, en, zh } from "../src/bot/texts";
import type { Message } from "../src/stream";
import { complete } from "./complete";

const sources = import.meta.glob("../src/{bot/*,lists,dialog,shell}.ts", { query: "?raw", import: "default", eager: true });
describe("texts of the operator's page", () => complete(own, ownZh, sources, /^(nav|new|act|state|length|usage)\.|^(enable|disable)\.|^(key|team|user|day|provider|deployment)$/));

describe("texts of the bot's pages", () => {
  complete(en, zh, sources, /^(plugin|resource|window|chat\.(kept|not_confirmed|conflict|unavailable))/); // names of them are made at run time
  test("what has no text stands for itself", () => expect(botTexts("zh").maybe("plugin.toString", "x")).toBe("x"));
});

const message = (type: string, value: unknown): Message => ({ type, data: typeof value === "string" ? value : JSON.stringify(value), id: "" });

describe("an answer", () => {
  test("from its start to its end", () => {
    const a = asked();
    expect(take(a, message("start", { history_id: "h", intent: { name: "chat", score: 0 } }))).toBe("");
    expect(a.state).toBe("coming");
    expect(take(a, message("delta", { text: "<b>one" }))).toBe("<b>one");
    expect(take(a, message("delta", { text: " two" }))).toBe(" two");
    take(a, message("done", { usage: { prompt_tokens: 1 }, history: { state: "kept", turn: 3 } }));
    expect(a).toEqual({ state: "done", text: "<b>one two", problem: "", turn: { history_id: "h", intent: { name: "chat", score: 0 }, usage: { prompt_tokens: 1 }, history: { state: "kept", turn: 3 } } });
    expect(take(a, message("delta", { text: "late" }))).toBe("");
    over(a, true);
    expect(a.state).toBe("done");
  });
  test("an error ends it", () => {
    const a = asked();
    take(a, message("delta", { text: "half" }));
    take(a, message("error", { error: { message: "cut" } }));
    expect([a.state, a.text, a.problem, ended(a)]).toEqual(["failed", "half", "cut", true]);
  });
  test("the gateway has stopped it", () => {
    const a = asked();
    take(a, message("delta", { text: "half" }));
    take(a, message("done", { stopped: true, history: { state: "kept", turn: 1, turns_told: 0 } }));
    expect([a.state, a.text, a.turn.history?.turn]).toEqual(["stopped", "half", 1]);
  });
  test.each([[true, "stopped"], [false, "cut"]] as const)("without an end, stopped %s", (stopped, state) => {
    const a = asked();
    take(a, message("delta", { text: "half" }));
    expect(ended(a)).toBe(false);
    over(a, stopped);
    expect(a.state).toBe(state);
  });
  test("what is of another form changes nothing", () => {
    const a = asked();
    for (const m of [message("delta", "{"), message("delta", { text: 5 }), message("delta", "null"), message("start", "[1]"), message("other", {}), message("message", "x")]) expect(take(a, m)).toBe("");
    expect([a.text, a.turn]).toEqual(["", {}]);
    take(a, message("error", "null"));
    expect([a.state, a.problem]).toEqual(["failed", ""]);
  });
});

test("figures", () => {
  expect([0.0000123, 0.0123, 1.234, 12.34].map(seconds)).toEqual(["12 µs", "12 ms", "1.23 s", "12.3 s"]);
  expect(money(25_900)).toBe("0.000026");
  expect(money(50_000_000_000)).toBe("50");
  expect([86400, 7200, 90, 60].map(window)).toEqual([[1, "day"], [2, "hour"], [90, "second"], [1, "minute"]]);
});

test.each([["", 0], ["24h", 86400], ["24h0m0s", 86400], ["1h30m", 5400], ["1.5s", 1.5], ["250ms", 0.25], ["90m", 5400]])("the duration %s", (text, want) => expect(secondsOf(text)).toBe(want));
