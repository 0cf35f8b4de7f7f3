// Elements are made by these functions alone. Text goes in as text nodes: nothing of a
// run is ever parsed as HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, string | number | boolean | undefined | EventListener>;

function fill(e: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name, value);
    else e.setAttribute(name, value === true ? "" : String(value));
  }
  add(e, children);
}

function add(e: Element, children: Child[]): void {
  for (const c of children) {
    if (Array.isArray(c)) add(e, c);
    else if (c instanceof Node) e.append(c);
    else if (c !== null && c !== undefined && c !== false) e.append(String(c));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  fill(e, attributes, children);
  return e;
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(e, attributes, children);
  return e;
}

/** A picture of its own, which scales with the page. */
export function picture(width: number, height: number, label: string, ...children: Child[]): SVGSVGElement {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "picture" }, ...children);
}

const fits = new WeakMap<Element, () => void>();

/** Draws what depends on the width into a box, and again when that has changed. */
export function fitted(draw: (width: number) => Node): HTMLElement {
  const box = h("div", { class: "fitted" });
  let drawn = 0;
  const fit = () => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== drawn) {
      drawn = width;
      box.replaceChildren(draw(width));
    }
  };
  fits.set(box, fit);
  new ResizeObserver(fit).observe(box);
  return box;
}

/** Draws now what would be drawn with the next frame: paper gets no further one. */
export function settle(): void {
  for (const box of document.querySelectorAll(".fitted")) fits.get(box)?.();
}

export interface Column {
  head: Child;
  left?: boolean; // text rather than figures
  whole?: boolean; // never broken into lines
}

function place(c: Column | undefined): string | undefined {
  return c?.left ? (c.whole ? "left whole" : "left") : undefined;
}

/** How many letters a text may have that is not given the room of a sentence; a Chinese one
 * counts as two. */
const short = 28;
const letters = (text: string) => text.replace(/[\u2e80-\uffef]/g, "**").length;

function cellOf(c: Column | undefined, content: Child): HTMLElement {
  const cell = h("td", { class: place(c) }, content);
  if (c?.left && !c.whole && letters(cell.textContent) > short) cell.classList.add("long");
  return cell;
}

/** A row that is the title of those below it, in as many cells as the table has. */
export interface Title {
  title: Child[];
}

/** A table that scrolls sideways by itself where the screen is narrow. */
export function table(label: string, columns: Column[], rows: (Child[] | Title)[]): HTMLElement {
  const head = h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: place(c) }, c.head))));
  const body = h("tbody", {}, rows.map((row) => {
    if ("title" in row) return h("tr", { class: "group" }, row.title.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: place(columns[i]) }, cell))));
    if (row.length === 1) return h("tr", { class: "group" }, h("th", { scope: "colgroup", colspan: columns.length }, row[0]));
    return h("tr", {}, row.map((cell, i) => i === 0
      ? h("th", { scope: "row", class: typeof cell === "string" && cell.length <= short ? "whole" : undefined }, cell)
      : cellOf(columns[i], cell)));
  }));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", {}, head, body));
}

export function details(summary: string, ...children: Child[]): HTMLElement {
  return h("details", {}, h("summary", {}, summary), ...children);
}

/** A finding in one line, with what is behind it; without that, the line alone. */
export function finding(name: string, summary: Child, ...children: Child[]): HTMLElement {
  const text = [h("b", {}, name), " ", summary];
  const box = h("details", { class: "finding" }, h("summary", {}, text), ...children);
  return box.childNodes.length > 1 ? box : h("p", { class: "finding" }, text);
}

/** One of several, as radio buttons that look like one switch. */
export function choice<T extends string>(label: string, options: [T, string][], chosen: T, change: (value: T) => void): HTMLElement {
  const name = `choice${++choices}`;
  return h("fieldset", { class: "choice" }, h("legend", {}, label), options.map(([value, text]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, change: () => change(value) }), h("span", {}, text))));
}

let choices = 0;

export function select<T extends string>(label: string, options: [T, string][], chosen: T, change: (value: T) => void): HTMLElement {
  const box = h("select", { change: () => change(box.value as T) }, options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  return h("label", { class: "select" }, h("span", {}, label), box);
}
