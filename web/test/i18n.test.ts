import { describe, expect, test } from "vitest";
import { fill, languages, preferred, textsIn } from "../src/i18n";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";
import { checks } from "../src/names";
import sentences from "../../internal/texts/en.json";

const keys = Object.keys(en) as (keyof typeof en)[];

describe("texts", () => {
  test("both languages have the same", () => expect(Object.keys(zh).sort()).toEqual([...keys].sort()));
  test.each(keys)("%s is there, with the same values to put in", (key) => {
    const names = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]))].sort();
    expect(zh[key]).not.toBe("");
    expect(names(zh[key]).filter((n) => n !== "n")).toEqual(names(en[key]).filter((n) => n !== "n"));
  });
  test("Chinese has Chinese punctuation", () => {
    for (const key of keys) expect(zh[key], key).not.toMatch(/[一-鿿][,;:()]|[,;()][一-鿿]/);
  });
  test("Chinese is Chinese", () => {
    const wordless = (text: string) => !/\p{L}/u.test(text.replace(/\{\w+\}/g, ""));
    const same = keys.filter((k) => zh[k] === en[k] && !wordless(en[k]));
    expect(same.sort()).toEqual(["env.onCpu", "env.version", "latency.read"].sort());
  });
  test("nothing of events is per request", () => {
    for (const language of ["en", "zh"] as const) {
      const t = textsIn(language, "event");
      for (const key of keys.filter((k) => !k.endsWith(".event"))) expect(t(key), key).not.toMatch(/per request|每个请求|单请求|requests\/s|请求\/秒/);
    }
  });
  test("a form for events is that of a text", () => {
    for (const key of keys.filter((k) => k.endsWith(".event"))) expect(en).toHaveProperty([key.replace(/\.event$/, "")]);
  });
  test("remedies have one", () => {
    for (const { remedy } of Object.values(checks)) if (remedy) expect(en).toHaveProperty([remedy]);
  });
});

describe("choice of language", () => {
  test.each([[["zh-CN", "en"], "zh"], [["zh-Hans"], "zh"], [["de", "zh-TW"], "zh"], [["en-GB", "zh"], "en"], [["fr"], "en"], [[], "en"]])("%o is %s", (list, want) => expect(preferred(list)).toBe(want));
  test("each can be switched to", () => expect(languages.map(([l]) => l)).toEqual(["en", "zh"]));
});

describe("filling in", () => {
  test("values are not looked into", () => expect(fill("{a} and {b}", { a: "{b}", b: "x" })).toBe("{b} and x"));
  test("what is missing stays", () => expect(fill("{a} {toString}", {})).toBe("{a} {toString}"));
  test("plurals", () => {
    const t = textsIn("en");
    expect([t.plural("n.rounds", 1), t.plural("n.rounds", 1200)]).toEqual(["1 round", "1,200 rounds"]);
    expect(textsIn("zh").plural("n.rounds", 8)).toBe("8 轮");
  });
  test("metrics", () => {
    expect(textsIn("en").metric("service.p999")).toBe("service time p99.9");
    expect(textsIn("zh").metric("throughput")).toBe("吞吐量");
    expect(textsIn("en").metric("program.ops_per_second")).toBe("ops_per_second");
    expect(textsIn("en").metric("target.cpu_per_request")).toBe("CPU time per request");
    expect(textsIn("en", "event").metric("target.cpu_per_request")).toBe("CPU time per event");
    expect(textsIn("zh", "event").metric("target.cpu_per_request")).toBe("单事件 CPU 时间");
    expect(textsIn("en", "event").metric("response.p99")).toBe("response time of publications p99");
    expect(textsIn("en", "event").plural("n.connections", 1)).toBe("1 connection of a publisher");
    expect(textsIn("en").metric("constructor")).toBe("constructor");
    expect(textsIn("en").metric("service.p99{step=log-in}")).toBe("service time p99 of step log-in");
    expect(textsIn("zh").metric("throughput{step=log-in}")).toBe("步骤 log-in 的吞吐量");
  });
});

describe("no text is left over", () => {
  const sources = Object.values(import.meta.glob("../src/**/*.ts", { query: "?raw", import: "default", eager: true }) as Record<string, string>)
    .filter((s) => !s.startsWith("// Texts in"))
    .join("\n");
  const made = /^(line|kind|clock|metric|check|outcome|latency|loop|answer|sure|needs|broke|where|trust|again|next|rest|more|why|remedy|head|gauge|series|state)\.|^(rest|better|worse|equivalent|inconclusive|none found)$/; // at run time, from what a run holds
  // Sentences are used by what Go says: its own test sees to that.
  test.each(keys.filter((k) => !made.test(k) && !Object.hasOwn(sentences, k)))("%s is used", (key) => expect(sources.includes(`"${key.replace(/(\.one)?(\.event)?$/, "")}"`)).toBe(true));
});
