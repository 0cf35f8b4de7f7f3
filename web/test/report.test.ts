import { describe, expect, test } from "vitest";
import type { Comparison, Report } from "../src/document";
import { textsIn } from "../src/i18n";
import { plain, rates, sizes, times } from "../src/format";
import { shown } from "../src/report/comparison";
import { workOf, type Context } from "../src/report/context";
import { unitOfExpression } from "../src/report/outcomes";
import { kinds } from "../src/report/validity";
import { sentence, sentences } from "../src/report/verdict";
import { shortened } from "../src/report/why";

function context(run: object = {}, language: "en" | "zh" = "en"): Context {
  const doc = { version: 1, run: { name: "x", rounds: 8, valid: true, plan: { margin: 0.02, metric: "throughput", protocol: "tcp", loop: "closed", variants: [], seed: 1, rounds: 8, short: false }, variants: [], comparisons: [], thresholds: [], claims: [], flags: [], ...run } } as unknown as Report;
  return { doc, t: textsIn(language), chosen: { language, theme: "auto", hidden: new Set(), search: "" }, redraws: [], ends: [] };
}

const worse: Comparison = { base: "pool", variant: "goroutine", metric: "throughput", primary: true, good: "higher", rounds: 8, ratio: { estimate: 0.944, low: 0.929, high: 0.96, confidence: 0.95 }, p: 0.0003, verdict: "worse" };

describe("the verdict", () => {
  test.each([
    [worse, "goroutine has 5.6% lower throughput than pool", "goroutine 的吞吐量比 pool 低 5.6%"],
    [{ ...worse, ratio: { estimate: 2.29, low: 1.97, high: 2.67 }, verdict: "better" }, "goroutine has 2.29× the throughput of pool", "goroutine 的吞吐量是 pool 的 2.29×"],
    [{ ...worse, verdict: "equivalent" }, "goroutine and pool are equivalent in throughput, within ±2%", "goroutine 与 pool 的吞吐量等效，差异在 ±2% 以内"],
    [{ ...worse, verdict: "inconclusive" }, "Whether goroutine and pool differ in throughput is not settled", "尚不能确定 goroutine 与 pool 的吞吐量是否有差异"],
    [{ ...worse, verdict: "invalid" }, "No verdict on goroutine and pool: the run is invalid", "对 goroutine 与 pool 不作结论：本次运行无效"],
  ])("%o", (x, en, zh) => {
    expect(sentence(context(), x).text).toBe(en);
    expect(sentence(context({}, "zh"), x).text).toBe(zh);
  });
  test("in Chinese keeps names in Latin letters apart", () => {
    expect(sentence(context({}, "zh"), { ...worse, metric: "program.ops" }).text).toBe("goroutine 的 ops 比 pool 低 5.6%");
    expect(sentence(context({}, "zh"), { ...worse, metric: "service.p99" }).text).toBe("goroutine 的服务时间 p99 比 pool 低 5.6%");
  });
  test("has its interval, p and rounds behind it", () => {
    expect(sentence(context(), worse).behind).toBe("95% interval −7.1 … −4.0%, p 0.0003, 8 rounds");
    expect(sentence(context(), { ...worse, p: 0.9, adjusted_p: 0.00001 }).behind).toContain("p < 0.0001");
  });
  test("of a ladder is the last step's", () => {
    const list = [worse, { ...worse, variant: "last" }, { ...worse, role: "step" }];
    expect(sentences(context({ comparisons: list })).map((s) => s.text)).toHaveLength(2);
    expect(sentences(context({ comparisons: list, plan: { ...context().doc.run.plan, ladder: { steps: [] } } })).map((s) => s.text)).toEqual([expect.stringContaining("last")]);
  });
  test("without comparisons is the capacity, or the claims", () => {
    expect(sentences(context({ capacities: [{ variant: "v", rate_per_second: { estimate: 5200, low: 5000, high: 5400, interval: "x" }, searches: [] }] }))[0]?.text).toBe("v keeps all thresholds up to 5.20k/s ±4%".replace("4%", "3.8%"));
    expect(sentences(context({ claims: [{ outcome: "holds" }, { outcome: "does not hold" }, { outcome: "not testable here" }] }))[0]?.text).toBe("1 of 2 claims hold");
  });
});

test("a verdict with a wide interval is a factor", () => {
  const wide = { ...worse, ratio: { estimate: 1.6, low: 1.1, high: 5.2 }, verdict: "better" };
  expect(sentence(context(), wide).text).toBe("goroutine has 1.60× the throughput of pool");
  expect(sentence(context(), wide).behind).toContain("interval 1.100 … 5.20,");
});

test("figures are per event where there are subscribers", () => {
  const variants = (n: number) => ({ ...context().doc.run, plan: { ...context().doc.run.plan, variants: [{ name: "a", subscribers: 0 }, { name: "b", subscribers: n }] } } as never);
  expect([workOf(variants(0)), workOf(variants(100)), workOf(context().doc.run)]).toEqual(["request", "event", "request"]);
});

test("a change is said as its verdict lets it be", () => {
  const r = { estimate: 1.01, low: 0.98, high: 1.04 };
  expect(shown(r, "better", undefined, 0.02)).toBe("+1.0% (−2.0 … +4.0)");
  expect(shown(r, "inconclusive", undefined, 0.02)).toBe("~ +1.0% (−2.0 … +4.0)");
  expect(shown({ estimate: 1.01 }, "inconclusive", undefined, 0.02)).toBe("~");
  expect(shown(r, "equivalent", { estimate: 1.01, low: 0.99, high: 1.015 }, 0.02)).toBe("= ±2% (−1.0 … +1.5)");
});

test("flags are grouped by kind, what makes the run invalid first", () => {
  const flag = (kind: string, trial: number, invalid: boolean) => ({ kind, trial, invalid, detail: "" });
  const list = kinds([flag("a", 1, false), flag("a", 2, false), flag("b", 3, true), flag("control_differs", 0, false), flag("a", 4, true)]);
  expect(list.map((k) => [k.first.kind, k.trials.length])).toEqual([["control_differs", 0], ["b", 1], ["a", 1], ["a", 2]]);
});

test("expressions have units", () => {
  expect(unitOfExpression("response.p99 < 80ms")).toBe(times);
  expect(unitOfExpression('ratio("a", "b", throughput) > 1.3')).toBe(plain);
  expect(unitOfExpression('value("a", throughput) > 1000/s')).toBe(rates);
  expect(unitOfExpression("target.rss < 10MiB")).toBe(sizes);
});

test("long names lose their middle and their type arguments", () => {
  expect(shortened("main.(*Map[go.shape.string,int]).Get")).toBe("main.(*Map[…]).Get");
  expect(shortened(`${"a".repeat(40)}${"b".repeat(40)}`)).toBe(`${"a".repeat(23)}…${"b".repeat(24)}`);
  expect(shortened("[kernel]")).toBe("[kernel]");
});
