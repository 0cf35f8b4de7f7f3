import { describe, expect, test } from "vitest";
import { costs, layout, search, tree, weight } from "../src/charts/flametree";
import { tint } from "../src/charts/flame";
import { heatQuantile, nearest } from "../src/charts/lines";
import { percentileAt } from "../src/charts/percentiles";
import { linear, logarithmic, logTicks, ratioTicks, ticks } from "../src/charts/scale";
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
    expect(ratioTicks(0.2, 5)).toEqual([0.2, 0.5, 1, 2, 5]);
    expect(ratioTicks(0.9, 1.11)).toContain(1);
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
  test("joined tables are read beside a gap", () => {
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
