import { h, fitted } from "../dom";
import type { Flames } from "../document";
import { shares, write, type Unit } from "../format";
import { mixed, resolved } from "./colours";
import { layout, search, type Box, type Node, type View } from "./flametree";

export interface FlameTexts {
  label: string;
  all: string;
  rest: string;
  perRequest: (value: string) => string;
  self: (value: string) => string;
  found: (n: number, value: string, share: string) => string;
  notFound: string;
}

const row = 20;

/** How much a box has changed, from −1 to 1: of its own size, and faintly where that is
 * a trifle of the whole. */
export function tint(n: Node, root: Node): number {
  const most = Math.max(n.total, n.baseTotal);
  if (!(most > 0)) return 0;
  const change = (n.total - n.baseTotal) / most;
  const share = Math.abs(n.total - n.baseTotal) / (0.02 * Math.max(root.total, root.baseTotal));
  return change * Math.min(1, share);
}

/** A flame graph, its root on top. */
export class FlameGraph {
  readonly element: HTMLElement;
  private focus: Node;
  private cursor: Node;
  private boxes: Box[] = [];
  private found = new Set<number>();
  private readonly canvas: HTMLCanvasElement;
  private readonly line: HTMLElement;
  private width = 0;

  constructor(private readonly root: Node, private readonly flames: Flames, private readonly view: View, private readonly unit: Unit, private readonly texts: FlameTexts) {
    this.focus = this.cursor = root;
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-label": texts.label, class: "flame",
      click: (e) => { const n = this.at(e as MouseEvent); if (n) this.zoom(n === this.focus && n.parent ? n.parent : n); },
      pointermove: (e) => { const n = this.at(e as MouseEvent); if (n) this.point(n); },
      keydown: (e) => this.key(e as KeyboardEvent),
    });
    this.line = h("output", { class: "readout", "aria-live": "polite" });
    this.element = h("div", {}, this.line, fitted((width) => {
      this.width = width;
      this.draw();
      return this.canvas;
    }));
    this.describe();
  }

  /** Marks what matches, and says how much that is. */
  search(text: string): string {
    const f = search(this.root, this.flames, text, this.view);
    this.found = f.ids;
    this.draw();
    if (text.trim() === "") return "";
    if (f.ids.size === 0) return this.texts.notFound;
    const whole = this.view === "base" ? this.root.baseTotal : this.root.total;
    return this.texts.found(f.ids.size, write(this.unit, f.total), write(shares, whole > 0 ? f.total / whole : 0));
  }

  zoom(n: Node): void {
    this.focus = this.cursor = n;
    this.draw();
    this.describe();
  }

  reset(): void {
    this.zoom(this.root);
  }

  private name(n: Node): string {
    const f = this.flames.functions[n.function];
    if (!f) return this.texts.all;
    if (f.name === "…") return this.texts.rest;
    return f.mapping ? `${f.name} (${f.mapping.replace(/[[\]]/g, "")})` : f.name;
  }

  private at(e: MouseEvent): Node | undefined {
    const r = this.canvas.getBoundingClientRect();
    const x = (e.clientX - r.left) / r.width, depth = Math.floor((((e.clientY - r.top) / r.height) * this.canvas.height) / devicePixelRatio / row);
    return this.boxes.find((b) => b.depth === depth && b.from <= x && x < b.to)?.node;
  }

  private point(n: Node): void {
    if (n === this.cursor) return;
    this.cursor = n;
    this.draw();
    this.describe();
  }

  private describe(): void {
    const n = this.cursor;
    const compared = this.view === "difference";
    const value = this.view === "base" ? n.baseTotal : n.total;
    const whole = this.view === "base" ? this.root.baseTotal : this.root.total;
    const parts = [
      h("b", {}, this.name(n)),
      h("span", {}, this.texts.perRequest(compared ? `${write(this.unit, n.baseTotal)} → ${write(this.unit, n.total)}` : write(this.unit, value))),
      h("span", {}, write(shares, whole > 0 ? value / whole : 0)),
      h("span", {}, this.texts.self(compared ? `${write(this.unit, n.baseSelf)} → ${write(this.unit, n.self)}` : write(this.unit, this.view === "base" ? n.baseSelf : n.self))),
    ];
    this.line.replaceChildren(...parts);
  }

  private key(e: KeyboardEvent): void {
    const n = this.cursor;
    const visible = (list: Node[]) => list.filter((c) => this.boxes.some((b) => b.node === c));
    const siblings = n.parent ? visible(n.parent.children) : [n];
    const i = siblings.indexOf(n);
    const moves: Record<string, () => Node | undefined> = {
      ArrowDown: () => visible(n.children).sort((a, b) => b.both - a.both)[0],
      ArrowUp: () => n.parent ?? undefined,
      ArrowRight: () => siblings[i + 1],
      ArrowLeft: () => siblings[i - 1],
    };
    const move = moves[e.key];
    if (move) {
      const to = move();
      if (to) this.point(to);
    } else if (e.key === "Enter") this.zoom(n);
    else if (e.key === "Escape") this.zoom(this.focus.parent ?? this.root);
    else return;
    e.preventDefault();
  }

  private colour(n: Node): string {
    if (n.function < 0) return resolved("--flame-root");
    if (this.view === "difference") {
      const v = tint(n, this.root);
      return mixed(resolved("--flame-same"), resolved(v < 0 ? "--flame-less" : "--flame-more"), Math.abs(v));
    }
    return groupColour(this.flames.functions[n.function]?.group ?? 0, this.flames.groups);
  }

  private draw(): void {
    if (this.width === 0) return;
    this.boxes = layout(this.focus, this.view, 1.2 / this.width);
    const depth = Math.max(3, ...this.boxes.map((b) => b.depth + 1));
    const scale = devicePixelRatio;
    this.canvas.width = this.width * scale;
    this.canvas.height = depth * row * scale;
    this.canvas.style.height = `${depth * row}px`;
    const ctx = this.canvas.getContext("2d");
    if (!ctx) return;
    ctx.scale(scale, scale);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const text = resolved("--flame-text"), edge = resolved("--bg"), mark = resolved("--flame-found");
    for (const b of this.boxes) {
      const x = b.from * this.width, width = (b.to - b.from) * this.width, y = b.depth * row;
      ctx.globalAlpha = this.found.size > 0 && !this.found.has(b.node.id) ? 0.35 : 1;
      ctx.fillStyle = this.found.has(b.node.id) ? mark : this.colour(b.node);
      ctx.fillRect(x, y, Math.max(1, width - 1), row - 1);
      ctx.globalAlpha = 1;
      if (width > 34) {
        ctx.fillStyle = text;
        ctx.save();
        ctx.beginPath();
        ctx.rect(x, y, width - 3, row);
        ctx.clip();
        ctx.fillText(this.name(b.node), x + 4, y + row / 2);
        ctx.restore();
      }
      if (b.node === this.cursor) {
        ctx.strokeStyle = text;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + 1, Math.max(1, width - 3), row - 3);
        ctx.strokeStyle = edge;
        ctx.lineWidth = 1;
      }
    }
  }
}

/** Groups have colours by their meaning, the target's own code the warmest. */
export function groupColour(group: number, groups: string[]): string {
  return resolved(groupVariable(groups[group] ?? ""));
}

export function groupVariable(group: string): string {
  if (group.startsWith("target: ")) return "--flame-own";
  const known: Record<string, string> = {
    "system calls": "--flame-calls", network: "--flame-network", gc: "--flame-gc", scheduler: "--flame-scheduler",
    "memory allocation": "--flame-memory", "runtime other": "--flame-runtime", "kernel other": "--flame-kernel",
  };
  return Object.hasOwn(known, group) ? known[group]! : "--flame-other";
}
