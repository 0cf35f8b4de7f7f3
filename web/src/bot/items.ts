import { h, type Child, type Column } from "../dom";
import { controls, paged, part, remember, search } from "../lists";
import type { Page } from "../shell";
import { edit, reference, rotate, sure } from "./form";
import { at, get, secondsOf, type Group, type Item, type Kind, type List } from "./manage";
import { page, type App } from "./operators";
import { amount, share, windowText } from "./usage";

const perPage = 50;
const filters = { keys: ["team", "user"], teams: [], users: ["team"], limits: ["key", "team", "user"] } as const;

/** Keys, teams, users or limits, with what they may use and have used. */
export function items(app: App, kind: Kind): Page {
  const { t } = app;
  const title = t(`nav.${kind}`);
  const { host, load } = part(app, async () => {
    const { rows, next } = await rowsOf(app, kind);
    const drawn = kind === "limits" ? limitRow(app, again) : itemRow(app, kind, again);
    return [rows.some((r) => r.item.declared) && h("p", { class: "hint" }, t("declared.about")), paged(app, title, drawn.columns, rows.map(drawn.row), next)];
  });
  const again = () => void load();
  const one = (name: "key" | "team" | "user") => {
    const [box, known] = reference(app, () => `${name}s`, app.query.get(name) ?? "", { change: () => { remember(app, name, box.value.trim()); again(); } });
    return h("label", { class: "select" }, h("span", {}, t(name)), box, known);
  };
  const given = () => Object.fromEntries(filters[kind].map((f) => [f, app.query.get(f)]).filter(([, value]) => value)) as Partial<Item>;
  void load();
  return { title, content: [
    controls(search(app, t("search"), load), filters[kind].map(one), app.edits && h("button", { type: "button", click: () => edit(app, kind, given(), again) }, t(`new.${kind}`))),
    host,
  ] };
}

/** An item, and what it has used today. */
interface Row {
  item: Item;
  today: Record<"requests" | "tokens" | "money", number> | null | undefined;
}

interface Rows {
  rows: Row[];
  next: string | undefined;
}

async function rowsOf(app: App, kind: Kind): Promise<Rows> {
  const query = Object.fromEntries(["search", "after", ...filters[kind]].map((name) => [name, app.query.get(name) ?? ""]));
  const list = await get<List<Item>>(at([kind], { ...query, limit: perPage, used: "true" }), app.signal);
  const one = kind.slice(0, -1) as "key" | "team" | "user";
  // The ledger may be long: the list is there without it.
  const spent = kind === "limits" ? undefined : await get<{ groups: Group[] }>(at(["usage"], { group: one }), app.signal).catch(() => undefined);
  const today = new Map(spent?.groups.map((g) => [g[one], { requests: g.requests, tokens: g.prompt_tokens + g.completion_tokens, money: g.money }]));
  return { rows: list.items.map((item) => ({ item, today: spent && (today.get(item.id) ?? { requests: 0, tokens: 0, money: 0 }) })), next: list.next };
}

interface Drawn {
  columns: Column[];
  row(r: Row): Child[];
}

/** A button of a row. The row says which item is meant, but not to who hears the button alone. */
const button = (text: string, name: string, click: () => void, kind = "") => h("button", { type: "button", class: kind, "aria-label": `${text} ${name}`, click }, text);

const link = (kind: "keys" | "teams" | "users" | "limits", query: Record<string, string>, text: string) => h("a", { href: page(kind, query) }, text);

/** The limit of an item, as the page for users shows those of its key. */
const limitOf = (i: Item) => ({ resource: i.resource ?? "", amount: i.amount ?? 0, window_seconds: secondsOf(i.window), used: i.used ?? null });

/** Whose limit it is. */
function ownerOf(app: App, i: Item): Child {
  const of = (["key", "team", "user"] as const).find((o) => i[o]);
  return of && [app.t(of), " ", link(`${of}s`, { search: i[of]! }, i[of]!)];
}

function limits(app: App, one: "key" | "team" | "user", i: Item): Child {
  const { t } = app;
  if (!i.limits?.length) return "–";
  return h("ul", { class: "budgets" }, i.limits.map((limit) => {
    const l = limitOf(limit);
    return h("li", {}, t("limits.of", { used: l.used === null ? t("usage.unknown") : amount(l, l.used), amount: amount(l, l.amount), resource: t.maybe(`resource.${l.resource}`, l.resource), window: windowText(t, l) }),
      limit.model && [" ", h("code", {}, limit.model)], limit[one] !== i.id && [" · ", ownerOf(app, limit)], l.used !== null && [" ", share(t, l)]);
  }));
}

/** What of an item is to be known at once. */
function state(app: App, i: Item): Child {
  const { t } = app;
  const over = i.expires !== undefined && Date.parse(i.expires) <= Date.now();
  return [
    i.declared && h("span", { class: "badge" }, t("declared")), !i.declared && (i.disabled ? h("span", { class: "badge bad" }, t("state.disabled")) : over ? h("span", { class: "badge bad" }, t("state.expired")) : h("span", { class: "badge good" }, t("state.active"))),
    i.expires && !over && h("span", { class: "line hint" }, t("state.until", { time: t.instant(i.expires) })),
    i.old_until && Date.parse(i.old_until) > Date.now() && h("span", { class: "line hint" }, t("state.old", { time: t.instant(i.old_until) })),
  ];
}

function itemRow(app: App, kind: "keys" | "teams" | "users", again: () => void): Drawn {
  const { t } = app;
  const one = kind.slice(0, -1) as "key" | "team" | "user";
  const able = (i: Item, verb: "enable" | "disable") => button(t(verb), i.id, () => sure(app, t(`${verb}.of`, { name: i.id }), t(`${verb}.about`), { method: "PATCH", path: at([kind, i.id]), version: i.version, body: { disabled: verb === "disable" } }, again));
  const buttons = (i: Item): Child => [
    h("span", { class: "buttons" }, app.edits && !i.declared && [
      button(t("edit"), i.id, () => edit(app, kind, i, again)),
      kind === "keys" && button(t("rotate"), i.id, () => rotate(app, i, again)),
      able(i, i.disabled ? "enable" : "disable"),
      button(t("remove"), i.id, () => sure(app, t("remove.of", { name: i.id }), t(kind === "keys" ? "remove.keys" : "remove.teams"), { method: "DELETE", path: at([kind, i.id]), version: i.version }, again, i.id), "danger"),
    ]),
    h("span", { class: "line" }, link("limits", { [one]: i.id }, t("nav.limits")), kind !== "keys" && [" · ", link("keys", { [one]: i.id }, t("nav.keys"))]),
  ];
  return {
    columns: [{ head: t(one) }, { head: t("state"), left: true }, ...(kind === "teams" ? [] : [{ head: t(kind === "keys" ? "owners" : "team"), left: true }]),
      { head: t("models"), left: true }, { head: t("limits.used"), left: true }, { head: t("today") }, { head: "", left: true, whole: true }],
    row: ({ item: i, today }) => [
      [h("span", {}, i.id), i.name && h("span", { class: "below", "data-own": "" }, i.name)], state(app, i),
      ...(kind === "teams" ? [] : [[i.team && link("teams", { search: i.team }, i.team), i.team && i.user && " · ", i.user && link("users", { search: i.user }, i.user), !i.team && !i.user && "–"]]),
      i.models?.join(", ") ?? t("models.all"), limits(app, one, i),
      today ? (["requests", "tokens", "money"] as const).map((r) => h("span", { class: "line" }, amount({ resource: r }, today[r]), " ", t(`resource.${r}`))) : t("usage.unknown"), buttons(i),
    ],
  };
}

function limitRow(app: App, again: () => void): Drawn {
  const { t } = app;
  return {
    columns: [{ head: t("limit") }, { head: t("scope"), left: true }, { head: t("model"), left: true }, { head: t("resource"), left: true }, { head: t("window"), left: true, whole: true }, { head: t("usage.used") }, { head: t("amount") }, { head: t("usage.share"), left: true }, { head: "", left: true, whole: true }],
    row: ({ item: i }) => {
      const l = limitOf(i);
      return [
        i.id, ownerOf(app, i), i.model ?? t("models.all"), t.maybe(`resource.${l.resource}`, l.resource), windowText(t, l), l.used === null ? t("usage.unknown") : amount(l, l.used), amount(l, l.amount), share(t, l),
        i.declared ? h("span", { class: "badge" }, t("declared")) : app.edits && h("span", { class: "buttons" },
          button(t("edit"), i.id, () => edit(app, "limits", i, again)),
          button(t("remove"), i.id, () => sure(app, t("remove.of", { name: i.id }), [t("remove.limits"), " ", ownerOf(app, i)], { method: "DELETE", path: at(["limits", i.id]), version: i.version }, again), "danger")),
      ];
    },
  };
}
