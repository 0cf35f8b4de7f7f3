// Fields of keys, teams, users and limits. What the gateway refuses is said next to its field.

import { confirm, Wrong } from "../dialog";
import { h, type Child } from "../dom";
import { local } from "../lists";
import { window as windowOf } from "./answer";
import { Refused } from "./api";
import { ask, at, get, secondsOf, type Item, type Kind, type List, type Request } from "./manage";
import type { App } from "./operators";
import type { OperatorKey } from "./operatortexts";

type Members = Record<string, unknown>;

/** A control, and the members of an item that it has. */
interface Field {
  host: HTMLElement;
  read(): Members;
  /** Shows what is wrong with one of its members; nothing, if the text is empty. It tells whether the member is its own. */
  mark(member: string, text: string): boolean;
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

let fields = 0;

/** A control, or several, with a label, a hint and a place for a fault. The first member is the one that it is called by. */
function field(app: App, label: OperatorKey, members: string[], read: () => Members, controls: Control[], hint?: OperatorKey): Field {
  const { t } = app;
  const id = `field${++fields}`;
  const note = h("span", { class: "note bad", id: `${id}-fault`, lang: "en" });
  const [first] = controls;
  if (controls.length === 1) first!.id = id;
  const described = `${id}-fault${hint ? ` ${id}-hint` : ""}`;
  for (const c of controls) c.setAttribute("aria-describedby", described);
  const name = controls.length === 1 ? h("label", { for: id }, t(label)) : h("span", { id: `${id}-name` }, t(label));
  const host = h("div", { class: "field", role: controls.length === 1 ? undefined : "group", "aria-labelledby": controls.length === 1 ? undefined : `${id}-name` },
    name, h("span", { class: "entry" }, controls), hint && h("span", { class: "note hint", id: `${id}-hint` }, t(hint)), note);
  return {
    host, read,
    mark: (member, text) => {
      if (!members.includes(member)) return false;
      note.textContent = text;
      for (const c of controls) if (text) c.setAttribute("aria-invalid", "true"); else c.removeAttribute("aria-invalid");
      if (text) first!.focus();
      return true;
    },
  };
}

const input = (type: string, value: string | number = "", more: Record<string, string | number | boolean | undefined | EventListener> = {}) => h("input", { type, value, autocomplete: "off", spellcheck: "false", ...more });

const lines = (box: HTMLTextAreaElement) => box.value.split("\n").map((line) => line.trim()).filter((line) => line);

function area(rows: number, value: string[]): HTMLTextAreaElement {
  const box = h("textarea", { rows, spellcheck: "false" });
  box.value = value.join("\n");
  return box;
}

/** The ID of another item; those that there are can be chosen. */
export function reference(app: App, kind: () => Kind, value = "", more: Record<string, string | EventListener> = {}): [HTMLInputElement, HTMLElement] {
  const known = h("datalist", { id: `items${++fields}` });
  const offer = async () => {
    const found = await get<List<Item>>(at([kind()], { search: box.value.trim(), limit: 50 }), app.signal).catch(() => ({ items: [] }));
    known.replaceChildren(...found.items.map((i) => h("option", { value: i.id }, i.name)));
  };
  const box: HTMLInputElement = input("text", value, { list: known.id, maxlength: 64, focus: () => void offer(), input: () => void offer(), ...more });
  return [box, known];
}

const units = ["second", "minute", "hour", "day"] as const;
const letters: Record<(typeof units)[number], [factor: number, letter: string]> = { second: [1, "s"], minute: [1, "m"], hour: [1, "h"], day: [24, "h"] };

/** A length of time; none without a number. */
function span(app: App, seconds: number): { boxes: [HTMLInputElement, HTMLSelectElement]; read(): string | undefined } {
  const [n, unit] = seconds > 0 ? windowOf(seconds) : ["", "hour"];
  const number = input("number", n, { min: 0, step: "any", "aria-label": app.t("length.number") });
  const box = h("select", { "aria-label": app.t("length.unit") }, units.map((u) => h("option", { value: u, selected: u === unit }, app.t(`length.${u}`))));
  return {
    boxes: [number, box],
    read: () => {
      const [factor, letter] = letters[box.value as (typeof units)[number]];
      return number.value === "" ? undefined : `${Number(number.value) * factor}${letter}`;
    },
  };
}

const text = (value: string) => value.trim() || undefined;

/** The fields of an item. An ID is given once. */
function fieldsOf(app: App, kind: Kind, i: Partial<Item>, fresh: boolean): Field[] {
  const { t } = app;
  const plain = (label: OperatorKey, member: "id" | "name" | "model", hint?: OperatorKey) => {
    const box = input("text", i[member] ?? "", { maxlength: 256 });
    return field(app, label, [member], () => ({ [member]: text(box.value) }), [box], hint);
  };
  const other = (label: OperatorKey, member: "team" | "user", of: Kind) => {
    const [box, known] = reference(app, () => of, i[member]);
    const f = field(app, label, [member], () => ({ [member]: text(box.value) }), [box]);
    f.host.append(known);
    return f;
  };
  const id = fresh ? [plain("id", "id", "id.hint")] : [];
  const pairs = area(2, Object.entries(i.metadata ?? {}).map(([name, value]) => `${name}=${value}`));
  const metadata = field(app, "metadata", ["metadata"], () => {
    const found = lines(pairs).map((line): [string, string] => [line.split("=", 1)[0]!.trim(), line.slice(line.indexOf("=") + 1).trim()]);
    return { metadata: found.length > 0 ? Object.fromEntries(found) : undefined };
  }, [pairs], "metadata.hint");
  if (kind === "limits") return [...id, ...limitFields(i), metadata];
  const names = area(3, i.models ?? []);
  const off = h("input", { type: "checkbox", checked: i.disabled ?? false });
  const ends = input("datetime-local", i.expires ? local(Date.parse(i.expires)) : "");
  return [
    ...id, plain("name", "name"),
    ...(kind === "teams" ? [] : [other("team", "team", "teams")]), ...(kind === "keys" ? [other("user", "user", "users")] : []),
    field(app, "models", ["models"], () => ({ models: lines(names).length > 0 ? lines(names) : undefined }), [names], "models.hint"),
    ...(kind === "keys" ? [field(app, "expires", ["expires"], () => ({ expires: ends.value === "" ? undefined : new Date(ends.value).toISOString() }), [ends], "expires.hint")] : []),
    field(app, "disabled", ["disabled"], () => ({ disabled: off.checked || undefined }), [off]), metadata,
  ];

  function limitFields(l: Partial<Item>): Field[] {
    const owners = ["key", "team", "user"] as const;
    const owner = owners.find((o) => l[o]) ?? "key";
    const scope = h("select", { "aria-label": t("scope"), change: () => { whose.value = ""; } }, owners.map((o) => h("option", { value: o, selected: o === owner }, t(o))));
    const [whose, known] = reference(app, () => `${scope.value}s` as Kind, l[owner], { "aria-label": t("id") });
    const resource = h("select", {}, (["requests", "tokens", "money", "parallel"] as const).map((r) => h("option", { value: r, selected: r === l.resource }, t(`resource.${r}`))));
    const scale = (r?: string) => (r === "money" ? 1e9 : 1);
    const amount = input("number", l.amount === undefined ? "" : l.amount / scale(l.resource), { min: 0, step: "any" });
    const window = span(app, secondsOf(l.window));
    const of = field(app, "scope", [...owners], () => Object.fromEntries(owners.map((o) => [o, o === scope.value ? text(whose.value) : undefined])), [scope, whose]);
    of.host.append(known);
    return [
      of, plain("model", "model", "model.hint"), field(app, "resource", ["resource"], () => ({ resource: resource.value }), [resource]),
      field(app, "amount", ["amount"], () => ({ amount: amount.value === "" ? undefined : Math.round(Number(amount.value) * scale(resource.value)) }), [amount], "amount.hint"),
      field(app, "window", ["window"], () => ({ window: window.read() }), window.boxes, "window.hint"),
    ];
  }
}

/** Makes a change, and says at its field what the gateway refuses. */
async function marked<T>(app: App, list: Field[], r: Request): Promise<T> {
  for (const f of list) for (const member of Object.keys(f.read())) f.mark(member, "");
  try {
    return await ask<T>(r, app.signal);
  } catch (error) {
    if (!(error instanceof Refused) || error.param === "") throw error;
    const said = error.message.startsWith(`${error.param}: `) ? error.message.slice(error.param.length + 2) : error.message;
    if (list.some((f) => f.mark(error.param, said))) throw new Wrong(app.t("fault"));
    throw error;
  }
}

/** Makes an item, or changes one that there is, and calls back when that is done. */
export function edit(app: App, kind: Kind, base: Partial<Item>, done: () => void): void {
  const { t } = app;
  const fresh = base.version === undefined;
  let { version } = base;
  const list = fieldsOf(app, kind, base, fresh);
  const read = (): Members => Object.assign({}, ...list.map((f) => f.read())) as Members;
  const before = fresh ? {} : read();
  confirm(app, {
    title: fresh ? t(`new.${kind}`) : t("edit.of", { name: base.id ?? "" }), form: list.map((f) => f.host),
    make: async () => {
      const now = read();
      const body = Object.fromEntries(Object.keys(now).filter((m) => JSON.stringify(now[m]) !== JSON.stringify(before[m])).map((m) => [m, now[m] ?? null]));
      const path = at(fresh ? [kind] : [kind, base.id!]);
      const made = await marked<Item>(app, list, fresh ? { method: "POST", path, body } : { method: "PATCH", path, body, version: version! });
      return () => { done(); if (made.secret) reveal(app, made); };
    },
    again: async (error) => {
      done(); // the change may have been made, and only its answer lost
      if (!(error instanceof Refused && error.status === 412)) return null;
      ({ version } = await get<Item>(at([kind, base.id!]), app.signal));
      return h("p", { role: "alert", class: "alarm" }, t("conflict"));
    },
  });
}

/** Gives a key another secret. */
export function rotate(app: App, i: Item, done: () => void): void {
  const { t } = app;
  const grace = span(app, 3600);
  const list = [field(app, "grace", ["grace", "grace_seconds"], () => ({ grace: grace.read() }), grace.boxes, "grace.hint")];
  confirm(app, {
    title: t("rotate.of", { name: i.id }), form: list.map((f) => f.host), about: h("p", { class: "hint" }, t("rotate.about")),
    make: async () => {
      const made = await marked<Item>(app, list, { method: "POST", path: at(["keys", i.id, "rotate"]), version: i.version, body: { grace_seconds: Math.round(secondsOf(grace.read())) } });
      return () => { done(); reveal(app, made); };
    },
    again: async () => { done(); return null; },
  });
}

/** Asks whether a request is to be sent. */
export function sure(app: App, title: string, about: Child, r: Request, done: () => void, removes?: string): void {
  confirm(app, { title, about: h("p", { class: "hint" }, about), removes, make: async () => { await ask(r, app.signal); return done; }, again: async () => { done(); return null; } });
}

/** Shows a secret, once. It stays until the reader says that it is kept. */
function reveal(app: App, made: Item): void {
  const { t } = app;
  const said = h("p", { role: "status", class: "hint" });
  const box = input("text", made.secret, { readonly: true, "aria-label": t("secret"), class: "secret" });
  const copy = async () => {
    box.select();
    // Browsers have a clipboard on encrypted pages and those of this machine only.
    const copied = await navigator.clipboard?.writeText(box.value).then(() => true, () => false) ?? document.execCommand("copy");
    said.textContent = t(copied ? "secret.copied" : "secret.select");
  };
  const d: HTMLDialogElement = h("dialog", { "aria-labelledby": "secret-title", close: () => d.remove(), cancel: (e) => e.preventDefault() },
    h("h2", { id: "secret-title" }, t("secret.of", { name: made.id })), h("p", {}, t("secret.once")), h("p", { class: "controls" }, box, h("button", { type: "button", click: () => void copy() }, t("secret.copy"))), said,
    h("p", { class: "actions" }, h("button", { type: "button", class: "go", click: () => { d.close(); d.remove(); } }, t("secret.kept"))));
  app.left(() => d.remove());
  document.getElementById("ui")!.append(d);
  d.showModal();
}
