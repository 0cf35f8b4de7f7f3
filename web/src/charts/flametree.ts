// Flame graphs as trees: pure, so that they can be tested without a canvas.

import type { Flame, Flames } from "../document";

export interface Node {
  id: number; // its place in preorder
  function: number; // in the table; −1 is the root
  self: number;
  baseSelf: number;
  total: number; // with what it calls
  baseTotal: number;
  both: number; // the larger side, and no less than the children's: what went away shows
  children: Node[];
  parent: Node | null;
}

/** Makes the tree of a graph's preorder. A list that is cut off gives what is there. */
export function tree(f: Flame): Node {
  let next = 0;
  const make = (parent: Node | null): Node => {
    const id = next++;
    const n: Node = { id, function: f.functions[id] ?? -1, self: f.self[id] ?? 0, baseSelf: f.base_self?.[id] ?? 0, total: 0, baseTotal: 0, both: 0, children: [], parent };
    n.total = n.self;
    n.baseTotal = n.baseSelf;
    for (let i = f.children[id] ?? 0; i > 0 && next < f.functions.length; i--) {
      const c = make(n);
      n.children.push(c);
      n.total += c.total;
      n.baseTotal += c.baseTotal;
      n.both += c.both;
    }
    n.both = Math.max(n.both, n.total, n.baseTotal);
    return n;
  };
  return make(null);
}

export type View = "difference" | "variant" | "base";

/** How wide a box is. */
export function weight(n: Node, view: View): number {
  return view === "variant" ? n.total : view === "base" ? n.baseTotal : n.both;
}

export interface Box {
  node: Node;
  depth: number;
  from: number; // shares of the width
  to: number;
}

/** Lays a node out over the whole width, its callers above it. Boxes narrower than
 * least are left out. */
export function layout(focus: Node, view: View, least: number): Box[] {
  const boxes: Box[] = [];
  const callers: Node[] = [];
  for (let n = focus.parent; n; n = n.parent) callers.unshift(n);
  callers.forEach((node, depth) => boxes.push({ node, depth, from: 0, to: 1 }));
  const visit = (node: Node, depth: number, from: number, to: number) => {
    boxes.push({ node, depth, from, to });
    const own = weight(node, view);
    if (!(own > 0)) return;
    let at = from;
    const order = node.children.map((c) => ({ c, w: weight(c, view) }));
    for (const { c, w } of order) {
      const width = (w / own) * (to - from);
      if (width >= least) visit(c, depth + 1, at, at + width);
      at += width;
    }
  };
  visit(focus, callers.length, 0, 1);
  return boxes;
}

export interface Found {
  ids: Set<number>;
  total: number; // of the outermost matches: recursion counts once
}

/** Finds functions whose names contain a text, in whatever case. */
export function search(root: Node, flames: Flames, text: string, view: View): Found {
  const found: Found = { ids: new Set(), total: 0 };
  const want = text.trim().toLowerCase();
  if (want === "") return found;
  const matching = new Set(flames.functions.flatMap((f, i) => (f.name.toLowerCase().includes(want) ? [i] : [])));
  const visit = (n: Node, inside: boolean) => {
    const hit = matching.has(n.function);
    if (hit) {
      found.ids.add(n.id);
      if (!inside) found.total += view === "base" ? n.baseTotal : n.total;
    }
    for (const c of n.children) visit(c, inside || hit);
  };
  visit(root, false);
  return found;
}

export interface Cost {
  function: number;
  self: number;
  baseSelf: number;
  total: number;
  baseTotal: number;
}

/** What each function costs, the dearest first; recursion counts once. */
export function costs(root: Node): Cost[] {
  const all = new Map<number, Cost>();
  const visit = (n: Node, above: Set<number>) => {
    let inside = above;
    if (n.function >= 0) {
      let c = all.get(n.function);
      if (!c) all.set(n.function, (c = { function: n.function, self: 0, baseSelf: 0, total: 0, baseTotal: 0 }));
      c.self += n.self;
      c.baseSelf += n.baseSelf;
      if (!above.has(n.function)) {
        c.total += n.total;
        c.baseTotal += n.baseTotal;
        inside = new Set(above).add(n.function);
      }
    }
    for (const child of n.children) visit(child, inside);
  };
  visit(root, new Set());
  return [...all.values()].sort((a, b) => Math.max(b.self, b.baseSelf) - Math.max(a.self, a.baseSelf));
}
