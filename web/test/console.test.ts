import { describe, expect, test } from "vitest";
import { at, problemOf } from "../src/console/api";
import { textOf } from "../src/console/change";
import { diff, near, type Line } from "../src/console/diff";
import { consoleTexts, en, zh } from "../src/console/texts";
import { frameTexts } from "../src/i18n/frame";
import { complete } from "./complete";

describe("texts of the console", () => complete(en, zh, import.meta.glob("../src/console/*.ts", { query: "?raw", import: "default", eager: true }), /^(status|state|kind|act|problem|new|token)\.|^diff\.(from|to)$/));
describe("texts of the frame", () => complete(frameTexts.en, frameTexts.zh, import.meta.glob("../src/shell.ts", { query: "?raw", import: "default", eager: true }), /^$/));

const side = (lines: Line[], sign: "-" | "+") => lines.filter((l) => l.sign === " " || l.sign === sign).map((l) => l.text).join("\n");
const short = (lines: (Line | number)[]) => lines.map((l) => (typeof l === "number" ? l : l.sign + l.text));

describe("what differs", () => {
  test.each([
    ["", "", []],
    ["", "a", ["+a"]],
    ["a\nb", "", ["-a", "-b"]],
    ["a\nb\nc", "a\nx\nc", [" a", "-b", "+x", " c"]],
    ["a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc", ["-a", "-b", " c", "+b", " a", " b", "-b", " a", "+c"]],
    ["a\n", "a", [" a", "-"]],
  ])("%j and %j", (a, b, want) => expect(short(diff(a, b))).toEqual(want));
  test("both sides are whole, and no shorter way was left out", () => {
    let seed = 1;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    for (let i = 0; i < 500; i++) {
      const text = () => Array.from({ length: random(12) }, () => "abcd"[random(4)]!);
      const a = text(), b = text();
      const lines = diff(a.join("\n"), b.join("\n"));
      expect(side(lines, "-")).toBe(a.join("\n"));
      expect(side(lines, "+")).toBe(b.join("\n"));
      // The longest common subsequence, by the table that everybody knows.
      const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
      for (let x = 1; x <= a.length; x++) for (let y = 1; y <= b.length; y++) common[x]![y] = a[x - 1] === b[y - 1] ? common[x - 1]![y - 1]! + 1 : Math.max(common[x - 1]![y]!, common[x]![y - 1]!);
      expect(lines.filter((l) => l.sign === " ").length).toBe(common[a.length]![b.length]!);
    }
  });
  test("texts that have nothing in common are replaced, however long they are", () => {
    const long = (mark: string) => Array.from({ length: 20_000 }, (_, i) => mark + i).join("\n");
    const lines = diff(long("a"), long("b"));
    expect(lines.length).toBe(40_000);
    expect(side(lines, "+")).toBe(long("b"));
  });
  test("what is far from a difference is counted", () => {
    const lines = "abcdefghij".split("").join("\n");
    expect(short(near(diff(lines, lines.replace("e", "x")), 1))).toEqual([3, " d", "-e", "+x", " f", 4]);
    expect(near(diff(lines, lines))).toEqual([10]);
  });
});

describe("the API", () => {
  test("addresses", () => {
    expect(at(["configs", "a:b/c"], { namespace: "x", search: "", limit: 5 })).toBe("/v1/configs/a%3Ab%2Fc?namespace=x&limit=5");
    expect(at(["status"])).toBe("/v1/status");
  });
  test("problems", () => {
    const p = problemOf(422, `{"type":"urn:dyno:control:invalid","detail":"2 faults","errors":[{"pointer":"#/name","detail":"no"}]}`);
    expect([p.status, p.kind, p.message, p.faults.length]).toEqual([422, "invalid", "2 faults", 1]);
    expect(problemOf(502, "<html>").message).toBe("<html>");
    expect(consoleTexts("en").known("problem.toString", "other")).toBe("other");
  });
  test("documents as text", () => {
    const doc = { namespace: "default", name: "c", version: 1, changed_at: "", changed_by: "" };
    expect(textOf("config", { ...doc, content: "a\nb" })).toBe("a\nb");
    expect(textOf("config", { ...doc, content: "", content_base64: "/wA=" })).toBe("/wA=");
    expect(textOf("config", { ...doc, content: "a", release: { content: "b", percent: 5 } })).toMatch(/"percent": 5[^]*\n\na\n\n--- release ---\nb$/);
    expect(JSON.parse(textOf("policy", { ...doc, rules: [{ action: "deny" }] }))).toEqual({ rules: [{ action: "deny" }] });
    expect(textOf("config", undefined)).toBe("");
    const instance = { id: "i", address: "10.0.0.1", port: 80, weight: 100, status: "up" as const, ttl_seconds: 30, holder: "r", version: 3, changed_at: "", changed_by: "" };
    expect(JSON.parse(textOf("instance", instance))).toEqual({ id: "i", address: "10.0.0.1", port: 80, weight: 100, status: "up", ttl_seconds: 30 });
  });
});
