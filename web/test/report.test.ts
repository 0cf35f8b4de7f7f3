import { describe, expect, test } from "vitest";
import type { Message, Report } from "../src/document";
import { textsIn } from "../src/i18n";
import { shown } from "../src/report/comparison";
import { figured, joined, say } from "../src/report/say";
import { measured } from "../src/report/outcomes";
import { estimateOf, mainClock, workOf, written, type Context } from "../src/report/context";
import { kinds, severity } from "../src/report/validity";
import { called, shortened } from "../src/report/why";

function context(run: object = {}, language: "en" | "zh" = "en"): Context {
  const doc = { version: 1, answer: { says: [] }, run: { name: "x", rounds: 8, valid: true, plan: { margin: 0.02, metric: "throughput", protocol: "tcp", loop: "closed", variants: [], seed: 1, rounds: 8, short: false }, variants: [], comparisons: [], thresholds: [], claims: [], flags: [], ...run } } as unknown as Report;
  return { doc, t: textsIn(language), chosen: { language, theme: "auto", hidden: new Set(), search: "" }, redraws: [], ends: [] };
}

describe("an answer", () => {
  const higher: Message = { kind: "answer.higher", values: { variant: "goroutine", base: "pool", metric: "throughput", change: "5.6%", interval: "+4.0 … +7.1%", confidence: "95" } };
  test("is said in the reader's language", () => {
    expect(say(textsIn("en"), higher)).toBe("goroutine has 5.6% higher throughput than pool (+4.0 … +7.1%, 95%)");
    expect(say(textsIn("zh"), higher)).toBe("goroutine 的吞吐量比 pool 高 5.6%（+4.0 … +7.1%，95%）");
  });
  test("has sentences within sentences", () => {
    const line: Message = { kind: "answer.none", values: { variant: "b", base: "a", metric: "service.p99" }, parts: { why: [{ kind: "why.beyond_limit", values: { check: "steal" } }] } };
    expect(say(textsIn("zh"), line)).toBe("b 与 a 的服务时间 p99 之比无从得知：某次试验的检查项超限：被宿主机占用的 CPU");
  });
  test("names the pairs that do not differ", () => {
    const pair: Message = { kind: "pairs.pair.ratio", values: { variant: "cpp", base: "rust", factor: "0.885", interval: "0.756 … 1.035", p: "0.72" } };
    const line: Message = { kind: "pairs.some", values: { metric: "target.rss", n: "6", differ: "4", confidence: "95" }, parts: { reasons: [
      { kind: "pairs.open", parts: { list: [pair] } },
      { kind: "pairs.equivalent", values: { margin: "2%" }, parts: { list: [{ kind: "pairs.pair", values: { variant: "go", base: "cpp" } }] } },
    ] } };
    expect(say(textsIn("en"), line)).toMatch(/: 4 of 6 pairs of variants differ, at 95% for all pairs together; not settled: cpp and rust \(0\.885 times, 0\.756 … 1\.035; p 0\.72\); differ by less than ±2%: go and cpp$/);
    expect(say(textsIn("zh"), line)).toMatch(/：6 对变体中有 4 对有差异（所有对合计的置信度为 95%）；尚未定论：cpp 与 rust（0\.885 倍，0\.756 … 1\.035；p 0\.72）；相差不到 ±2%：go 与 cpp$/);
  });
  test("keeps names that look like values", () => {
    expect(say(textsIn("en"), { ...higher, values: { ...higher.values, variant: "{base}" } })).toContain("{base} has 5.6%");
  });
  test("joins reasons as clauses, and all else as a list", () => {
    const causes = ["steal", "late_wakeups"].map((cause): Message => ({ kind: "cause", values: { cause } }));
    const found: Message = { kind: "found.disturbed", values: { share: "30 %" }, parts: { causes } };
    expect(say(textsIn("zh"), found)).toMatch(/占用：被宿主机占用的 CPU，唤醒延迟$/);
    expect(say(textsIn("en"), { kind: "unsure.broken", parts: { reasons: [found, { kind: "undecided.rounds" }] } }))
      .toBe("as measured: for 30 % of the window something else had a CPU that generator or target wanted: CPU stolen by the host, late wake-ups; the estimate has no interval: it takes more rounds");
    expect(joined(textsIn("zh"), [{ kind: "sure.rounds", values: { n: "8" } }, { kind: "sure.trial" }])).toBe("8 轮，单次试验：没有区间");
  });
  test("has no blanks in Chinese but next to other letters", () => {
    const t = textsIn("zh");
    const overlaps: Message = { kind: "range.overlaps", parts: { range: [{ kind: "range.between", values: { low: "1ms", high: "2ms" } }], other: [{ kind: "range.endless" }] } };
    expect(say(t, overlaps)).toBe("1ms 至 2ms 与没有端点的区间重叠");
    expect(say(t, { kind: "unidentified", values: { metric: "service.p99", variant: "a" }, parts: { why: [{ kind: "why.shared" }] } })).toMatch(/^a 的服务时间 p99：其他程序/);
    expect(say(t, { kind: "lacks.trial", values: { variant: "连接 池" } })).toBe("连接 池没有完整的试验");
    expect(say(t, { kind: "stopped.pair", values: { variant: "b", base: "a", metric: "program.x" }, parts: { why: [{ kind: "stopped.rounds", values: { n: "3", of: "8" } }] } })).toBe("b 与 a 的 x：8 轮中的 3 轮");
    expect(say(textsIn("en"), overlaps)).toBe("1ms to 2ms overlaps an interval without ends");
  });
  test("keeps the first line of what a program said", () => {
    const reason: Message = { kind: "reason.trial", values: { trial: "3", variant: "b", error: "exit status 9; last output:\npanic: {variant}" } };
    expect(say(textsIn("zh"), reason)).toBe("试验 3（变体 b）失败：exit status 9");
  });
  test("of a kind that the page does not know, and of values that are missing, says so", () => {
    expect(say(textsIn("zh"), { kind: "no.such" })).toBe("no.such");
    expect(say(textsIn("zh"), { kind: "constructor", values: { n: "1" } })).toBe("constructor");
    expect(say(textsIn("en"), { kind: "found.drops", values: { n: "5" } })).toContain("5 of {of} requests were dropped");
  });
  test("has words for what figures say in words", () => {
    expect(figured(textsIn("zh"), "+3.0% (+1.0 … +5.0) in 30m")).toBe("30m 内 +3.0% (+1.0 … +5.0)");
    expect(figured(textsIn("en"), "+3.0% (+1.0 … +5.0) in 30m")).toBe("+3.0% (+1.0 … +5.0) in 30m");
    expect(figured(textsIn("zh"), "3.60 ms (range 3.30 … 4.00)")).toBe("3.60 ms (范围 3.30 … 4.00)");
  });
});

test("a figure is written as it was measured, with the mark of its state", () => {
  const validity = [
    { figure: "throughput", variant: "a", state: "not_identified" }, { figure: "throughput", variant: "b", state: "relative_only" },
    { figure: "throughput", variant: "c", state: "bounded", low: 960, high: 1030 }, { figure: "throughput", variant: "d", state: "ok" },
    { figure: "throughput", variant: "e", state: "bounded", low: 900, high: 1000 }, { figure: "throughput", variant: "f", state: "not_identified", low: 1000 },
    { figure: "throughput", variant: "g", state: "bounded", low: 300, high: 1000 }, { figure: "throughput", variant: "h", state: "bounded", low: 300, high: 2000 },
  ];
  const c = context({ validity }, "zh");
  expect(["a", "b", "c", "d", "e", "f", "g", "h"].map((v) => written(c, v, "throughput", { estimate: 1000 })))
    .toEqual(["1.00k/s?", "1.00k/s?", "≤1.00k/s", "1.00k/s", "≤1.00k/s", "≥1.00k/s", "≤1.00k/s", "1.00k/s?"]);
});

test("figures are per event where there are subscribers", () => {
  const variants = (n: number) => ({ ...context().doc.run, plan: { ...context().doc.run.plan, variants: [{ name: "a", subscribers: 0 }, { name: "b", subscribers: n }] } } as never);
  expect([workOf(variants(0)), workOf(variants(100)), workOf(context().doc.run)]).toEqual(["request", "event", "request"]);
});

test("latency goes by the events where there are streams", () => {
  expect(mainClock(context({ variants: [{ name: "a", streams: {} }] }))).toBe("delivery");
  expect(mainClock(context({ variants: [{ name: "a" }] }))).toBe("service");
});

test("what was measured has the unit of its expression", () => {
  const c = context(), zh = context({}, "zh");
  c.doc.units = zh.doc.units = { "response.p99 < 80ms": "s", "slope(rss) < 5%/30min": "share/s" };
  expect(measured(c, "response.p99 < 80ms", { measured: 0.0423 })).toBe("42.3 ms");
  const slope = { measured: 0.002 / 1800, low: 0.001 / 1800, high: 0.003 / 1800 };
  expect(measured(c, "slope(rss) < 5%/30min", slope)).toBe("+0.200% (+0.100 … +0.300) in 30m");
  expect(measured(zh, "slope(rss) < 5%/30min", { measured: 0.002 / 1800 })).toBe("30m 内 +0.200%");
  expect(measured(c, "slope(rss) < 5%/30min", { ...slope, not_identified: { kind: "why.beyond_limit", values: { check: "steal" } } })).toBe("+0.200% in 30m?");
});

test("a change is said as its verdict lets it be", () => {
  const r = { estimate: 1.01, low: 0.98, high: 1.04 };
  expect(shown(r, "better", undefined, 0.02)).toBe("+1.0% (−2.0 … +4.0)");
  expect(shown(r, "inconclusive", undefined, 0.02)).toBe("~ +1.0% (−2.0 … +4.0)");
  expect(shown({ estimate: 1.01 }, "inconclusive", undefined, 0.02)).toBe("~");
  expect(shown(r, "invalid", undefined, 0.02)).toBe("+1.0%?");
  expect(shown(r, "equivalent", { estimate: 1.01, low: 0.99, high: 1.015 }, 0.02)).toBe("= ±2% (−1.0 … +1.5)");
});

test("flags are grouped by kind, what makes the run invalid first", () => {
  const flag = (kind: string, trial: number, invalid: boolean) => ({ kind, trial, disturbs: invalid });
  const list = kinds([flag("a", 1, false), flag("a", 2, false), flag("b", 3, true), flag("control_differs", 0, false), flag("a", 4, true)]);
  expect(list.map((k) => [k.first.kind, k.trials.length])).toEqual([["control_differs", 0], ["b", 1], ["a", 1], ["a", 2]]);
});

test("a finding about the target is no warning", () => {
  const flag = { kind: "no_answers", disturbs: false };
  expect([{ ...flag, breaks: true }, { ...flag, disturbs: true }, flag].map(severity)).toEqual([
    { kind: "bad", key: "flags.broken" }, { kind: "bad", key: "flags.disturbed" }, { kind: "warn", key: "flags.warning" }]);
});

test("long names lose their middle and their type arguments", () => {
  expect(shortened("main.(*Map[go.shape.string,int]).Get")).toBe("main.(*Map[…]).Get");
  expect(shortened(`${"a".repeat(40)}${"b".repeat(40)}`)).toBe(`${"a".repeat(23)}…${"b".repeat(24)}`);
  expect(shortened("[kernel]")).toBe("[kernel]");
  expect(called({ name: "crypto/sha256.block" })).toBe("crypto/sha256.block");
  expect(called({ name: "crypto/sha256.block", caller: "main.extra" })).toBe("extra → sha256.block");
  expect(called({ name: "memcpy (libc.so.6)", caller: "a/b.(*T[c/d.E]).F" })).toBe("b.(*T[…]).F → memcpy (libc.so.6)");
});

test("a disturbed latency is at most what was measured", () => {
  const validity = [{ figure: "service.p99", variant: "a", state: "bounded", low: 0.001, high: 0.009 }, { figure: "service.p99", variant: "b", state: "not_identified", low: 0.001 }];
  const c = context({ validity });
  expect(["a", "b"].map((v) => written(c, v, "service.p99", { estimate: 0.004 }))).toEqual(["≤4.00 ms", "4.00 ms?"]);
});

test("a quantile with few values beyond it is marked", () => {
  const variants = [{ name: "a", figures: { "service.p50": { estimate: 0.001 } }, figures_of_few: { "service.p99": 0.002, "response.p99{step=login}": 0.002 } }];
  const c = context({ variants });
  expect(["service.p50", "service.p99", "service.p999", "response.p99{step=login}"].map((m) => written(c, "a", m, estimateOf(variants[0] as never, m))))
    .toEqual(["1.00 ms", "~2.00 ms", "–", "~2.00 ms"]);
});
