import { describe, expect, test } from "vitest";
import { costs, layout, search, tree, weight } from "../src/charts/flametree";
import { tint } from "../src/charts/flame";
import { heatQuantile, nearest } from "../src/charts/lines";
import { ratioScale } from "../src/charts/intervals";
import { percentileAt } from "../src/charts/percentiles";
import { fitting, labelWidth, linear, linearSeries, logarithmic, logSeries, logTicks, ratioSeries, ticks } from "../src/charts/scale";
import { rungs } from "../src/charts/waterfall";
import type { Flame, Flames } from "../src/document";

describe("scales", () => {
  test("map there and back", () => {
    for (const s of [linear(3, 17, 100, 20), logarithmic(0.01, 1000, 5, 95)]) {
      for (const share of [0, 0.1, 0.5, 0.93, 1]) {
        const v = s.low + share * (s.high - s.low);
        expect(s.invert(s(v))).toBeCloseTo(v, 6);
      }
    }
  });
  test("stand domains that are none", () => {
    expect(Number.isFinite(linear(5, 5, 0, 1)(5))).toBe(true);
    expect(Number.isFinite(logarithmic(0, 0, 0, 1)(0))).toBe(true);
    expect(logarithmic(1, 10, 0, 9)(-3)).toBe(0);
  });
  test("ticks are round and within", () => {
    expect(ticks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticks(0.93, 2.48, 5)).toEqual([1, 1.5, 2]);
    expect(ticks(3, 3, 5)).toEqual([3]);
    expect(logTicks(0.4e-3, 22e-3)).toEqual([5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2]);
    expect(logTicks(1e-9, 1)).toHaveLength(10);
    // Also where the lowest value is just below a power of ten, which has no end in uPlot.
    for (let low = 1e-6; low < 2; low *= 1.003) {
      const list = logTicks(low, low * 50);
      expect(list.length).toBeGreaterThan(3);
      expect(list.length).toBeLessThan(11);
    }
    expect(ratioSeries(0.2, 5)[0]).toEqual([0.2, 0.5, 1, 2, 5]);
    expect(ratioSeries(0.9, 1.11)[0]).toContain(1);
  });
});

describe("ticks are chosen by the room that there is", () => {
  const label = (v: number) => `${v}×`;
  const apart = (list: number[], place: (v: number) => number) => list.every((v, i) => i === 0 || place(v) - labelWidth(label(v)) / 2 >= place(list[i - 1]!) + labelWidth(label(list[i - 1]!)) / 2);
  test.each([1.5, 2, 3, 5, 12, 100, 1e4, 1e7])("ratios up to %d times", (far) => {
    for (const width of [90, 150, 240, 600]) {
      const place = logarithmic(1 / far, far, 8, width - 8);
      const list = fitting(ratioSeries(1 / far, far), place, label);
      expect(list, `in ${width}`).toContain(1);
      expect(apart(list, place), `${list} in ${width}`).toBe(true);
    }
  });
  test("more room has more of them", () => {
    const of = (width: number) => fitting(ratioSeries(0.01, 100), logarithmic(0.01, 100, 8, width - 8), label);
    expect(of(240)).toEqual([0.01, 0.1, 1, 10, 100]);
    expect(of(150)).toEqual([0.01, 1, 100]);
    expect(of(900).length).toBe(13);
  });
  test("of other axes", () => {
    for (const width of [60, 200, 700]) {
      const line = linear(0, 900_000, 0, width), log = logarithmic(1e-5, 1e5, 0, width);
      expect(apart(fitting(linearSeries(0, 900_000, 6), line, label), line)).toBe(true);
      expect(apart(fitting(logSeries(1e-5, 1e5), log, label), log)).toBe(true);
    }
    expect(fitting([[1, 2]], () => 0, label)).toEqual([]);
  });
});

describe("the scale of intervals", () => {
  test("has all estimates on it, however wide an interval is", () => {
    const s = ratioScale([{ estimate: 1.1, low: 1e-6, high: 1e6 }, { estimate: 0.5, low: 0.4, high: 0.6 }], 0.02, 240);
    expect([s.high > 100, s.high < 110]).toEqual([true, true]);
    expect(ratioScale([{ estimate: 5000 }], 0, 240).high).toBeGreaterThan(5000);
    expect(ratioScale([{ estimate: 1.01, low: 1, high: 1.02 }], 0.02, 240).high).toBeLessThan(1.1);
  });
});

test("percentiles are named by their nines", () => {
  expect([0, 12, 24, 36, 48].map(percentileAt)).toEqual(["0", "90", "99", "99.9", "99.99"]);
});

test("a ladder's steps begin where the one before ended", () => {
  const list = rungs([{ variant: "a" }, { variant: "b", marginal: { estimate: 1.1, low: 1.05, high: 1.15 }, total: { estimate: 1.1 } }, { variant: "c", marginal: { estimate: 2, low: 1.9, high: 2.1 } }]);
  expect(list.map((r) => [r.from, r.to])).toEqual([[1, 1], [1, 1.1], [1.1, 2.2]]);
  expect(list[2]?.low).toBeCloseTo(2.09);
});

test("a ladder has no rung for what is not identified", () => {
  const e = (estimate: number) => ({ estimate });
  const list = rungs([{ variant: "a" }, { variant: "b", marginal: e(5), verdict: "invalid", total: e(2) }, { variant: "c", marginal: e(1.5), total: e(3) },
    { variant: "d", marginal: e(2), total: e(9), total_verdict: "invalid" }, { variant: "e", marginal: e(1.25), total: e(5) }]);
  expect(list.map((r) => [r.name, r.from, r.to])).toEqual([["a", 1, 1], ["c", 2, 3], ["e", 4, 5]]);
});

// main calls work (self 5, base 1) and idle (0, base 6); work calls work again.
const flames: Flames = { groups: [""], graphs: [], functions: [{ name: "main", group: 0 }, { name: "work<b>", group: 0 }, { name: "idle", group: 0 }] };
const graph: Flame = { kind: "cpu", unit: "s", base: "a", variant: "b", functions: [-1, 0, 1, 1, 2], children: [1, 2, 1, 0, 0], self: [0, 1, 5, 2, 0], base_self: [0, 1, 1, 0, 6] };

describe("flame graphs", () => {
  const root = tree(graph);
  test("totals are sums", () => {
    expect([root.total, root.baseTotal]).toEqual([8, 8]);
    expect(root.children[0]?.children.map((c) => [c.total, c.baseTotal])).toEqual([[7, 1], [0, 6]]);
  });
  test("a difference has room for what went away", () => {
    expect(weight(root.children[0]!, "difference")).toBeGreaterThanOrEqual(13);
    const boxes = layout(root, "difference", 0);
    expect(boxes).toHaveLength(5);
    for (const b of boxes) {
      expect(b.from).toBeGreaterThanOrEqual(0);
      expect(b.to).toBeLessThanOrEqual(1 + 1e-12);
      for (const o of boxes) if (o !== b && o.depth === b.depth) expect(o.to <= b.from + 1e-12 || b.to <= o.from + 1e-12).toBe(true);
    }
    expect(layout(root, "variant", 0.001).map((b) => b.node.id)).not.toContain(4);
  });
  test("a focus is as wide as the whole, its callers above", () => {
    const boxes = layout(root.children[0]!.children[0]!, "variant", 0);
    expect(boxes.slice(0, 3).map((b) => [b.node.id, b.depth, b.from, b.to])).toEqual([[0, 0, 0, 1], [1, 1, 0, 1], [2, 2, 0, 1]]);
  });
  test("search finds in whatever case, and counts recursion once", () => {
    const found = search(root, flames, "WORK<", "variant");
    expect([...found.ids]).toEqual([2, 3]);
    expect(found.total).toBe(7);
    expect(search(root, flames, "  ", "variant").ids.size).toBe(0);
    expect(search(root, flames, ".*", "variant").ids.size).toBe(0);
  });
  test("costs add up", () => {
    const list = costs(root);
    expect(list.reduce((sum, c) => sum + c.self, 0)).toBe(8);
    expect(list.find((c) => c.function === 1)).toEqual({ function: 1, self: 7, baseSelf: 1, total: 7, baseTotal: 1 });
  });
  test("colours tell what grew from what shrank", () => {
    const [work, idle] = root.children[0]!.children;
    expect(tint(work!, root)).toBeGreaterThan(0.5);
    expect(tint(idle!, root)).toBeLessThan(-0.5);
    expect(tint(root, root)).toBe(0);
  });
  test("a list that is cut off gives what is there", () => {
    expect(tree({ ...graph, functions: [-1, 0], children: [5, 9], self: [1, 2] }).total).toBe(3);
    expect(tree({ ...graph, functions: [], children: [], self: [] }).total).toBe(0);
  });
});

describe("time lines", () => {
  test("joined tables are read next to a gap", () => {
    expect(nearest([null, 3, null, null], 2)).toBe(3);
    expect(nearest([null, null], 0)).toBe(null);
  });
  test("a heat map's quantiles", () => {
    const heat = { clock: "service", start_seconds: 0, step_seconds: 1, first: 96, columns: [[10, 0, 0], [80, 5, 5], []] };
    expect(heatQuantile(heat, heat.columns, 0.5)).toBeCloseTo(10 ** (96.5 / 16 - 9), 9);
    expect(heatQuantile(heat, heat.columns, 0.99)).toBeCloseTo(10 ** (98.5 / 16 - 9), 9);
    expect(heatQuantile(heat, [[]], 0.5)).toBe(null);
  });
});
