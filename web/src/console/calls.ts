import { h, svg, table, type Child } from "../dom";
import { figure } from "../format";
import type { Page } from "../shell";
import { controls, part } from "../lists";
import { again, namespaces, page, type App } from "./app";
import { at, get, type Call } from "./api";

/** Who calls the services of a namespace: a drawing, and a table that says the same. */
export async function calls(app: App): Promise<Page> {
  const { t } = app;
  const title = t("nav.calls");
  const { host, load } = part(app, async () => {
    const { items } = await get<{ items: Call[] }>(at(["calls"], { namespace: app.namespace }), app.signal);
    if (items.length === 0) return h("p", {}, t("calls.none"));
    const services = new Set(items.map((c) => c.service));
    const link = (name: string) => (services.has(name) ? h("a", { href: page(app, ["service", name]) }, name) : name);
    return [
      drawing(app, title, items),
      table(title, [{ head: t("caller") }, { head: t("service"), left: true }, { head: t("requests") }, { head: t("errors") }, { head: t("active") }, { head: t("reports") }],
        items.map((c) => [link(c.from), link(c.service), figure(c.requests_per_second), c.errors_per_second > 0 ? h("span", { class: "badge bad" }, figure(c.errors_per_second)) : 0, figure(c.active), c.reports])),
    ];
  });
  const bar = controls(await namespaces(app));
  again(app, load, 5000);
  void load();
  return { title, content: [bar, h("p", { class: "hint" }, t("calls.replica")), host] };
}

/** The columns of services, callers to the left of what they call. A call that closes a circle goes back. */
export function columns(calls: Pick<Call, "from" | "service">[]): string[][] {
  const depth = new Map<string, number>();
  const active = new Set<string>();
  // What is below a service: the longest way to a service that calls nobody.
  const below = (name: string): number => {
    const known = depth.get(name);
    if (known !== undefined) return known;
    active.add(name);
    let deepest = -1;
    for (const { from, service } of calls) if (from === name && !active.has(service)) deepest = Math.max(deepest, below(service));
    active.delete(name);
    depth.set(name, deepest + 1);
    return deepest + 1;
  };
  const called = new Set(calls.map((c) => c.service));
  for (const { from } of calls) if (!called.has(from)) below(from);
  for (const { from } of calls) below(from);
  const most = Math.max(...depth.values());
  const columns: string[][] = Array.from({ length: most + 1 }, () => []);
  for (const [name, n] of depth) columns[most - n]!.push(name);
  return columns.map((names) => names.sort());
}

const mostDrawn = 100; // calls; more are in the table only
const wide = 310, high = 76, box = { width: 150, height: 34 };

/** Where each service is drawn, and each call on its way through columns between. */
export function layout(calls: Pick<Call, "from" | "service">[]): { places: Map<string, { x: number; y: number }>; ways: string[][]; height: number } {
  const layers = columns(calls);
  const column = new Map(layers.flatMap((names, x) => names.map((name) => [name, x] as const)));
  const ways = calls.map(({ from, service }, n) => {
    const between: string[] = [];
    for (let x = column.get(from)! + 1; x < column.get(service)!; x++) {
      between.push(`\n${n} ${x}`); // no name has a line break
      layers[x]!.push(between.at(-1)!);
    }
    return [from, ...between, service];
  });
  const height = high * Math.max(...layers.map((names) => names.length));
  const places = new Map<string, { x: number; y: number }>();
  const before = (name: string) => ways.flatMap((way) => way.flatMap((to, i) => (to === name ? (places.get(way[i - 1] ?? "")?.y ?? []) : [])));
  const mean = (ys: number[]) => (ys.length > 0 ? ys.reduce((a, b) => a + b, 0) / ys.length : 0);
  layers.forEach((names, x) => names.map((name) => [name, mean(before(name))] as const).toSorted((a, b) => a[1] - b[1])
    .forEach(([name], y) => places.set(name, { x: x * wide, y: ((y + 0.5) * height) / names.length })));
  return { places, ways, height };
}

function drawing(app: App, title: string, calls: Call[]): Child {
  const { t } = app;
  if (calls.length > mostDrawn) return h("p", { class: "hint" }, t("calls.many", { n: mostDrawn }));
  const { places, ways, height } = layout(calls);
  const most = Math.max(...calls.map((c) => c.requests_per_second));
  const text = (c: Call) => t("calls.rate", { requests: figure(c.requests_per_second) }) + (c.errors_per_second > 0 ? ` · ${t("calls.errors", { errors: figure(c.errors_per_second) })}` : "");
  const line = (c: Call, n: number) => {
    const points = ways[n]!.map((name) => places.get(name)!);
    const isBack = points.length === 2 && points[1]!.x <= points[0]!.x;
    const lift = isBack ? high : 0; // what goes back, goes around above
    const step = points.slice(1).map((b, i) => {
      const a = points[i]!, from = a.x + box.width, bend = isBack ? wide / 4 : (b.x - from) / 2;
      return `C${from + bend} ${a.y - lift} ${b.x - bend} ${b.y - lift} ${b.x} ${b.y}${i < points.length - 2 ? `H${b.x + box.width}` : ""}`;
    });
    const a = points[0]!, b = points[1]!, end = points.at(-1)!, failing = c.errors_per_second > 0 ? " failing" : "";
    return [
      svg("path", { class: `call${failing}`, "stroke-width": 1 + 4 * (most > 0 ? c.requests_per_second / most : 0), d: `M${a.x + box.width} ${a.y}${step.join("")}` }),
      svg("path", { class: `call end${failing}`, d: `M${end.x - 9} ${end.y - 5}L${end.x} ${end.y}L${end.x - 9} ${end.y + 5}` }),
      svg("text", { class: `value${failing}`, x: (a.x + box.width + b.x) / 2, y: (a.y + b.y) / 2 - 5 - 0.75 * lift, "text-anchor": "middle" }, text(c)),
    ];
  };
  const node = ([name, { x, y }]: readonly [string, { x: number; y: number }]) => svg("g", {},
    svg("title", {}, name), svg("rect", { class: "service", x, y: y - box.height / 2, width: box.width, height: box.height, rx: 5 }),
    svg("text", { class: "name", x: x + box.width / 2, y: y + 4, "text-anchor": "middle" }, name.length > 20 ? `${name.slice(0, 19)}…` : name));
  const services = [...places].filter(([name]) => !name.startsWith("\n"));
  const width = Math.max(...services.map(([, { x }]) => x)) + box.width + wide / 4, tall = height + high / 2;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    svg("svg", { viewBox: `-4 ${-high / 2} ${width + 4} ${tall}`, width: width + 4, height: tall, role: "img", "aria-label": title, class: "picture" }, calls.map(line), services.map(node)));
}
