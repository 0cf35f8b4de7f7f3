import { describe, expect, test } from "vitest";
import { at, exact, limitationsOf, problemOf } from "../src/console/api";
import { columns, layout } from "../src/console/calls";
import { textOf } from "../src/console/change";
import { diff, near, type Line } from "../src/console/diff";
import { above, become, fits, variantOf, type Fields, type Schema, type Schemas } from "../src/console/schema";
import { consoleTexts, en, zh } from "../src/console/texts";
import { frameTexts } from "../src/i18n/frame";
import { complete } from "./complete";

describe("texts of the console", () => complete(en, zh, import.meta.glob("../src/{console/*,lists,dialog}.ts", { query: "?raw", import: "default", eager: true }), /^(status|health|state|kind|act|problem|new|token)\.|^nav\.(sessions|counters)$|^diff\.(from|to)$/));
describe("texts of the frame", () => complete(frameTexts.en, frameTexts.zh, import.meta.glob("../src/{settings,shell}.ts", { query: "?raw", import: "default", eager: true }), /^$/));

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
  test.each([
    [`{"items":[{"value":9223372036854775807,"version":1},{"value":-9223372036854775808}]}`, ["9223372036854775807", "-9223372036854775808"]],
    [`{"items":[{"value": 9007199254740993},{"value":42},{"value":1234567890123456.5}]}`, ["9007199254740993", 42, 1234567890123456.5]],
    [JSON.stringify({ items: [{ value: `"value":1234567890123456789` }, { value: `{"value":1234567890123456789}` }] }), [`"value":1234567890123456789`, `{"value":1234567890123456789}`]],
  ])("large values keep all digits: %s", (text, want) => expect((JSON.parse(exact(text)) as { items: { value: unknown }[] }).items.map((i) => i.value)).toEqual(want));
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

describe("limitations of data planes", () => {
  test("fields that the browser has joined are taken apart", () => {
    expect(limitationsOf("grpc #/rules/0/retry/on/0 codes only: cancelled, internal, grpc #/rules/1/limit gRPC's clients limit nothing")).toEqual([
      { by: "grpc", pointer: "#/rules/0/retry/on/0", detail: "codes only: cancelled, internal" }, { by: "grpc", pointer: "#/rules/1/limit", detail: "gRPC's clients limit nothing" },
    ]);
    expect([limitationsOf(""), limitationsOf("strange")]).toEqual([[], []]);
  });
});

describe("schemas", () => {
  const rule: Schema = { oneOf: [
    { type: "object", properties: { action: { enum: ["limit"] }, match: { $ref: "#/components/schemas/Match" }, limit: { type: "object", properties: { n: { type: "number" } } } }, required: ["action"] },
    { type: "object", properties: { action: { enum: ["deny"] }, match: { $ref: "#/components/schemas/Match" } }, required: ["action"] },
  ] };
  const schemas: Schemas = { Match: { type: "object", properties: { methods: { type: "array", items: { enum: ["GET", "PUT"] } }, headers: { type: "object", additionalProperties: { type: "string" } } } } };
  test.each([
    [true, {}], [true, undefined], [true, { action: "deny" }], [true, { action: "limit", limit: 1 }], // fields are looked at one by one
    [false, { action: "burn" }], [false, { match: {} }], [false, { action: "deny", limit: {} }], [false, []], [false, null], [false, "deny"],
  ])("%j: a rule can be shown in its fields: %j", (want, value) => expect(fits(schemas, rule, value)).toBe(want));
  test.each([
    [true, { methods: ["GET"] }, "Match"], [false, { method: 1 }, "Match"],
  ])("%j: %j can be shown as a match", (want, value, name) => expect(fits(schemas, { $ref: `#/components/schemas/${name}` }, value)).toBe(want));
  test("values", () => {
    expect(fits(schemas, { type: "array", items: { enum: ["GET"] } }, ["PUT"])).toBe(false);
    expect(fits(schemas, { type: "object", additionalProperties: { type: "string" } }, { a: 1 })).toBe(false);
    expect([fits(schemas, { type: "integer" }, 1.5), fits(schemas, { type: "integer" }, "1"), fits(schemas, { type: "boolean" }, true)]).toEqual([true, false, true]);
  });
  test("another action keeps what both have", () => {
    const value: Fields = { action: "limit", limit: { n: 1 }, match: { methods: ["GET"] } };
    become(rule, value, "deny");
    expect(value).toEqual({ action: "deny", match: { methods: ["GET"] } });
    expect(variantOf(rule, value)).toBe(rule.oneOf![1]);
  });
  test("pointers", () => expect([above("#/rules/0/a~1b"), above("#")]).toEqual([["/rules/0/a~1b", "/rules/0", "/rules", ""], [""]]));
});

describe("who calls whom", () => {
  const call = (text: string) => ({ from: text[0]!, service: text[1]! });
  test.each([
    [["ab"], [["a"], ["b"]]],
    [["ab", "bc", "ac"], [["a"], ["b"], ["c"]]],
    [["ab", "ba"], [["a"], ["b"]]],
    [["aa"], [["a"]]],
    [["ac", "bc", "cd"], [["a", "b"], ["c"], ["d"]]],
  ])("%j is in columns", (calls, want) => expect(columns(calls.map(call))).toEqual(want));
  test("all services have places of their own, and calls go through columns between", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    for (let i = 0; i < 200; i++) {
      const calls = Array.from({ length: 1 + random(20) }, () => call(`${"abcdefgh"[random(8)]}${"abcdefgh"[random(8)]}`));
      const { places, ways } = layout(calls);
      const names = new Set(calls.flatMap((c) => [c.from, c.service]));
      expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(places.size);
      expect([...places.keys()].filter((name) => !name.startsWith("\n")).sort()).toEqual([...names].sort());
      ways.forEach((way, n) => {
        expect([way[0], way.at(-1)]).toEqual([calls[n]!.from, calls[n]!.service]);
        const xs = way.map((name) => places.get(name)!.x);
        if (xs.at(-1)! > xs[0]!) for (let k = 1; k < xs.length; k++) expect(xs[k]! - xs[k - 1]!).toBe(xs[1]! - xs[0]!);
      });
    }
  });
});
