import { describe, expect, test } from "vitest";
import * as f from "../src/format";

describe("figures", () => {
  test.each([
    [0, "0"], [1, "1.00"], [12.345, "12.3"], [999.6, "1000"], [123456, "123456".replace(/...$/, "000")], [0.00123, "0.00123"], [0.0001234, "1.23e−4"], [1e9, "1e9".replace("e", "e+")], [-2.5, "−2.50"],
  ])("%d is %s", (v, want) => expect(f.figure(v)).toBe(want));
  test("of what is not known", () => {
    expect(f.write(f.times, undefined)).toBe("–");
    expect(f.write(f.times, Number.NaN)).toBe("–");
  });
  test.each([[1.23e-6, "1.23 µs"], [0.9996e-3, "1.00 ms"], [2, "2.00 s"], [0, "0 s"], [3e-10, "0.300 ns"]])("time %d is %s", (v, want) => expect(f.write(f.times, v)).toBe(want));
  test("sizes, rates and shares", () => {
    expect(f.write(f.sizes, 1536)).toBe("1.50 KiB");
    expect(f.write(f.rates, 56500)).toBe("56.5k/s");
    expect(f.write(f.shares, 0.123)).toBe("12.3%");
    expect(f.write(f.processors, 0.5)).toBe("0.500 CPU");
  });
});

describe("metrics of steps", () => {
  test.each([
    ["response.p99{step=login}", "response.p99", "login"], ["throughput{step=a.b-c+d_e}", "throughput", "a.b-c+d_e"], ["response.p99", "response.p99", ""], ["response.p99{step=}", "response.p99{step=}", ""],
  ])("%s", (name, metric, step) => {
    expect(f.splitStep(name)).toEqual([metric, step]);
    if (step) expect(f.stepMetric(metric, step)).toBe(name);
  });
  test("units are those of the metric", () => {
    expect(f.unitOf("throughput{step=a}")).toBe(f.rates);
    expect(f.unitOf("response.p99{step=x.ratio}")).toBe(f.times);
    expect(f.unitOf("errors.ratio{step=a}")).toBe(f.shares);
  });
});

// The same as report/unit_test.go holds its own to.
describe("intervals", () => {
  const e = (estimate: number, low?: number, high?: number) => ({ estimate, ...(low === undefined ? {} : { low }), ...(high === undefined ? {} : { high }), interval: "x" });
  test.each([
    [e(1230, 1205.4, 1254.6), "1.23k/s ±2%"], [e(1000, 900, 1300), "1.00k/s (0.900 … 1.30)"], [e(1000, 900), "1.00k/s (≥ 0.900)"], [e(5, 5, 5), "5.00/s ±0%"], [{ estimate: 5 }, "5.00/s"], [{}, "–"], [e(0, 0, 2000), "0/s (0 … 2.00)k/s"],
  ])("%o", (x, want) => expect(f.estimate(f.rates, x)).toBe(want));
  test("every figure with an interval shows it", () => {
    for (let i = 1; i < 200; i++) {
      const v = 1.37 ** (i - 100), text = f.estimate(f.times, e(v, v * 0.9, v * (1 + i / 100)));
      expect(text).toMatch(/±|…/);
    }
  });
  test.each([
    [e(0.944, 0.929, 0.96), "−5.6% (−7.1 … −4.0)"], [e(2.29, 1.97, 2.67), "2.29× (1.97 … 2.67)"], [e(1.24, 0.94, 1.63), "+24% (−6 … +63)"], [e(1.001, 1, 1.002), "+0.10% (0.00 … +0.20)"], [{ estimate: 1.05 }, "+5.0%"],
    [e(1.5, 0.7, 4), "+50% (−30 … +300)"], [e(1.5, 0.7, 4.01), "1.50× (0.700 … 4.01)"], [e(1.076, 0.000449, 2580), "1.076× (4.49e−4 … 2580)"], [e(28.5, 0.0499, 80800), "28.5× (0.0499 … 80800)"],
  ])("change %o", (x, want) => expect(f.change(x)).toBe(want));
  test.each([[0.008, "±0.8%"], [0.3, "±30%"], [3, "±300%"], [3.001, "> 300%"], [69.7, "> 300%"], [undefined, "–"]])("what a comparison detects: %d", (share, want) => expect(f.detectable(share)).toBe(want));
  test("differences", () => {
    expect(f.delta(f.times, e(-1.24e-6, -2.44e-6, -5.05e-8))).toBe("−1.24 µs (−2.44 … −0.0505)");
    expect(f.delta(f.times, { estimate: 3e-9 })).toBe("+3.00 ns");
  });
});

test("p-values", () => {
  expect([0.00001, 0.0005, 0.043, 0.34].map(f.probability)).toEqual(["<0.0001", "0.0005", "0.043", "0.34"]);
});

test("units of metrics", () => {
  for (const [metric, unit] of [["throughput", f.rates], ["service.p99", f.times], ["delivery.p99", f.times], ["target.rss", f.sizes], ["target.user_share", f.shares], ["program.ops", f.counts], ["handshake.p99", f.times], ["availability", f.shares], ["observed.app_heap_bytes", f.sizes], ["connections.peak", f.counts], ["constructor", f.counts], ["program.x_seconds", f.times], ["errors.ratio", f.shares]] as const) {
    expect(f.unitOf(metric), metric).toBe(unit);
  }
  expect(f.unitNamed("constructor")).toBe(f.counts);
});

test("commands and CPUs", () => {
  expect(f.command(["dyno", "run", "a b", "it's", ""])).toBe(`dyno run 'a b' 'it'\\''s' ''`);
  expect(f.ranges([0, 1, 2, 5, 7, 8])).toBe("0-2,5,7-8");
});
