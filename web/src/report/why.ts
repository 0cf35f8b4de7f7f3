import { choice, details, h, select, table, type Child } from "../dom";
import type { Explanation, Flame, Item } from "../document";
import { differenceInterval } from "../charts/intervals";
import { FlameGraph, groupVariable } from "../charts/flame";
import { costs, tree, type View } from "../charts/flametree";
import { delta, probability, shares, times, unitNamed, write } from "../format";
import type { Context } from "./context";
import { spoken } from "./say";

const most = 15, mostGroups = 8;

/** What accounts for the differences, function by function. */
export function why(c: Context): Child[] {
  const list = (c.doc.explanations ?? []).filter((e) => !e.control && (e.cpu || e.tables?.length));
  return list.map((e, i) => {
    const title = c.t("flame.pairOf", { base: e.base, variant: e.variant });
    const body = explanation(c, e);
    return list.length > 3 && i > 0 ? details(title, body) : [h("h3", {}, title), body];
  });
}

function explanation(c: Context, e: Explanation): Child[] {
  const { t } = c;
  const a = e.cpu;
  const parts: Child[] = [];
  if (a) {
    const rounds = t.plural("n.rounds", a.rounds) + (a.left_out ? t("why.leftOut", { n: a.left_out }) : "");
    const lines = [t("why.account", { base: e.base, variant: e.variant, before: write(times, a.base), after: write(times, a.variant), change: delta(times, a.measured), rounds })];
    lines.push(a.measured.low === undefined ? t("why.oneRound") : a.accounted === undefined ? t("why.chance") : t("why.accounted", { share: write(shares, a.accounted), leftover: delta(times, a.leftover) }));
    const ranked = (e.tables ?? []).filter((x) => x.kind === "cpu").flatMap((x) => x.functions ?? []).filter((f) => f.ranked).length;
    lines.push(ranked > 0 ? t.plural("why.ranked", ranked, { sum: delta(times, { estimate: a.ranked }) }) : t(a.profile_rounds < 2 ? "why.oneProfile" : "why.noneRanked"));
    parts.push(h("p", {}, lines.join(" ")));
  }
  for (const x of e.tables ?? []) {
    const kind = t.maybe(`kind.${x.kind}`, x.kind);
    const groups = items(c, x.groups ?? [], x.unit, t("why.groups", { kind }), false);
    const functions = items(c, x.functions ?? [], x.unit, t("why.functions", { kind }), true);
    parts.push(x.kind === "cpu" ? [h("h4", {}, t("why.groups", { kind })), groups, h("h4", {}, t("why.functions", { kind })), functions]
      : details(kind, h("h4", {}, t("why.groups", { kind })), groups, h("h4", {}, t("why.functions", { kind })), functions));
  }
  for (const l of e.leftover ?? []) parts.push(h("p", {}, t("why.leftover", { count: l.count, kind: l.kind, variant: l.variant }), l.where && [": ", h("code", {}, l.where)]));
  if (e.tables?.length) parts.push(h("p", { class: "hint" }, t("why.chanceMark")));
  if (e.notes?.length) parts.push(h("ul", { class: "hint" }, e.notes.map((n) => h("li", {}, spoken(t, n)))));
  return parts;
}

function items(c: Context, list: Item[], unitName: string, label: string, grouped: boolean): HTMLElement {
  const { t } = c;
  const unit = unitNamed(unitName);
  const shown = list.filter((x, i) => i < (grouped ? most : mostGroups) || x.ranked);
  const far = Math.max(1e-15, ...shown.map((x) => Math.abs(x.change.estimate ?? 0))) * 1.6;
  return table(label, [
    { head: t("why.name") }, { head: t("why.before") }, { head: t("why.after") }, { head: t("col.drawn"), left: true }, { head: t("col.change"), left: true, whole: true }, { head: t("col.p") },
    ...(grouped ? [{ head: t("why.group"), left: true }] : []),
  ], shown.map((x) => [
    h("code", { title: x.caller ? `${x.caller} → ${x.name}` : x.name }, called(x)), write(unit, x.base), write(unit, x.variant), differenceInterval(x.change, far, 150, unit, x.ranked),
    (x.ranked || x.change.low === undefined ? "" : "~ ") + delta(unit, x.change), probability(x.adjusted_p),
    ...(grouped ? [x.group ?? ""] : []),
  ]));
}

/** A function, and the target's own one that called it: extra → sha256.block. */
export function called(x: { name: string; caller?: string }): string {
  return x.caller ? `${middle(bareName(x.caller))} → ${middle(bareName(x.name))}` : shortened(x.name);
}

/** A name without the folders of a Go package's path, and without package main. */
function bareName(name: string): string {
  const text = untyped(name);
  return (/[ :]/.test(text) ? text : text.slice(text.lastIndexOf("/") + 1)).replace(/^main\./, "");
}

/** A name without type arguments, and without the middle where it is long. */
export function shortened(name: string): string {
  return middle(untyped(name));
}

function untyped(name: string): string {
  let text = "", depth = 0;
  for (const [i, r] of [...name].entries()) {
    if (r === "[" && (depth > 0 || i > 0)) {
      if (++depth === 1) text += "[…]";
    } else if (r === "]" && depth > 0) depth--;
    else if (depth === 0) text += r;
  }
  return text;
}

function middle(text: string): string {
  const letters = [...text];
  return letters.length <= 48 ? text : `${letters.slice(0, 23).join("")}…${letters.slice(-24).join("")}`;
}

/** Flame graphs, of one variant or of the difference between two. */
export function flames(c: Context): Child[] {
  const { t } = c;
  const all = c.doc.flames;
  if (!all || all.graphs.length === 0) return [];
  const kinds = [...new Set(all.graphs.map((g) => g.kind))];
  const kindName = (k: string) => t.maybe(`kind.${k}`, k);
  const id = (g: Flame) => `${g.base ?? ""}\n${g.variant}`;
  const pairName = (g: Flame) => (g.base ? t("flame.pairOf", { base: g.base, variant: g.variant }) : g.variant);
  const host = h("div");
  const found = h("output", { class: "found", "aria-live": "polite" });
  let graph: FlameGraph;
  const box = h("input", { type: "search", value: c.chosen.search, spellcheck: "false", input: () => {
    c.chosen.search = box.value;
    found.textContent = graph.search(box.value);
  } });
  const controls = h("div", { class: "controls" });
  const redraw = () => {
    const kind = kinds.includes(c.chosen.flame ?? "") ? c.chosen.flame! : kinds[0]!;
    const graphs = all.graphs.filter((g) => g.kind === kind);
    const own = graphs.find((g) => id(g) === c.chosen.pair) ?? graphs[0]!;
    const view: View = own.base ? (c.chosen.view ?? "difference") : "variant";
    const root = tree(own);
    const unit = unitNamed(own.unit);
    const what = view === "difference" ? pairName(own) : view === "base" ? own.base! : own.variant;
    graph = new FlameGraph(root, all, view, unit, {
      label: t("flame.label", { what, kind: kindName(kind) }), all: t("flame.all"), rest: t("flame.rest"),
      perRequest: (value) => t("flame.perRequest", { value }), self: (value) => t("flame.self", { value }),
      found: (n, value, share) => t.plural("flame.found", n, { value, share }), notFound: t("flame.notFound"),
    });
    found.textContent = graph.search(c.chosen.search);
    controls.replaceChildren(
      kinds.length > 1 ? choice(t("flame.kind"), kinds.map((k) => [k, kindName(k)]), kind, (k) => { c.chosen.flame = k; redraw(); }) : "",
      graphs.length > 1 ? select(t("flame.pair"), graphs.map((g) => [id(g), pairName(g)]), id(own), (p) => { c.chosen.pair = p; redraw(); }) : "",
      own.base ? choice<View>(t("flame.view"), [["difference", t("flame.difference")], ["base", own.base], ["variant", own.variant]], view, (v) => { c.chosen.view = v; redraw(); }) : "",
      h("label", { class: "select" }, h("span", {}, t("flame.search")), box), found,
      h("button", { type: "button", click: () => graph.reset() }, t("flame.reset")));
    host.replaceChildren(graph.element,
      view === "difference"
        ? h("p", { class: "hint" }, t("flame.hint", { kind: kindName(kind) }), " ", h("span", { class: "swatch less" }), t("flame.less"), " ", h("span", { class: "swatch more" }), t("flame.more", { base: own.base ?? "" }))
        : h("p", { class: "hint" }, t("flame.hint", { kind: kindName(kind) }), " ", t("flame.colours.group"), " ", groupKeys(all.groups)),
      details(t("flame.table"), functionsTable(c, own, root, view)));
  };
  redraw();
  c.redraws.push(redraw);
  return [controls, host];
}

function groupKeys(groups: string[]): Child {
  const names = new Map<string, string>();
  for (const g of groups) if (g) names.set(groupVariable(g), g.startsWith("target: ") ? "target" : names.has(groupVariable(g)) ? "…" : g);
  return [...names].map(([variable, name]) => {
    const swatch = h("span", { class: "swatch" });
    swatch.style.background = `var(${variable})`;
    return h("span", { class: "pair" }, swatch, name);
  });
}

function functionsTable(c: Context, g: Flame, root: ReturnType<typeof tree>, view: View): HTMLElement {
  const { t } = c;
  const unit = unitNamed(g.unit);
  const compared = view === "difference";
  const value = (base: number, own: number) => (compared ? `${write(unit, base)} → ${write(unit, own)}` : write(unit, view === "base" ? base : own));
  return table(t("flame.table"), [{ head: t("flame.function") }, { head: t("flame.own") }, { head: t("flame.total") }, ...(compared ? [{ head: t("col.change") }] : [])],
    costs(root).slice(0, 100).map((x) => {
      const f = c.doc.flames!.functions[x.function];
      return [h("code", {}, f?.name === "…" ? t("flame.rest") : (f?.name ?? "")), value(x.baseSelf, x.self), value(x.baseTotal, x.total), ...(compared ? [delta(unit, { estimate: x.self - x.baseSelf })] : [])];
    }));
}
