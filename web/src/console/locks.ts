import { choice, h, type Child, type Column } from "../dom";
import { times, write } from "../format";
import type { Page } from "../shell";
import { confirm } from "../dialog";
import { controls, paged, part, search } from "../lists";
import { liveList, namespaces, page, wanted, type App } from "./app";
import { ask, at, get, type Counter, type List, type Lock, type Session } from "./api";
import { compared } from "./change";

const perPage = 100;
const kinds = ["lock", "session", "counter"] as const;

/** The locks, sessions or counters of a namespace. */
export async function locks(app: App): Promise<Page> {
  const { t } = app;
  const kind = kinds.find((k) => k === app.query.get("kind")) ?? "lock";
  const title = t(`nav.${kind}s`);
  let since: string | undefined;
  const state = h("div");
  const { host, load } = part(app, async () => {
    const list = await get<List<Lock & Session & Counter>>(at([`${kind}s`], { ...wanted(app), limit: perPage }), app.signal);
    if (since === undefined) state.append(liveList(app, { kind, since: since = list.watch }, load));
    const { columns, row } = { lock: lockRow, session: sessionRow, counter: counterRow }[kind](app, () => void load());
    return paged(app, title, columns, list.items.map(row), list.next);
  });
  const bar = controls(await namespaces(app), choice(t("kind"), kinds.map((k) => [k, t(`nav.${k}s`)]), kind, (k) => app.go(page(app, ["locks"], { kind: k }))),
    search(app, t(kind === "session" ? "search.session" : "search.prefix"), load, "prefix"));
  void load();
  return { title, content: [bar, state, host] };
}

/** How a kind is shown in a list. */
interface Rows<T> {
  columns: Column[];
  row(one: T): Child[];
}

const own = (text: string | undefined): Child => (text ? h("span", { "data-own": "" }, text) : "–");

/** A button of a row. The row says which one is meant, but not to who hears the button alone. */
const end = (text: string, name: string, click: () => void) => h("button", { type: "button", class: "danger", "aria-label": `${text} ${name}`, click }, text);

function lockRow(app: App, done: () => void): Rows<Lock> {
  const { t } = app;
  return {
    columns: [{ head: t("name") }, { head: t("holder"), left: true }, { head: t("value"), left: true }, { head: t("fencing") }, { head: t("held"), left: true, whole: true }, { head: t("kind.session"), left: true, whole: true }, { head: t("who"), left: true }, { head: "" }],
    row: (l) => [l.name, own(l.holder), own(l.value), l.token, t.instant(l.since), h("a", { href: page(app, ["locks"], { kind: "session", prefix: l.session }) }, l.session), l.changed_by, end(t("session.release"), l.name, () => endSession(app, l.session, done))],
  };
}

function sessionRow(app: App, done: () => void): Rows<Session> {
  const { t } = app;
  return {
    columns: [{ head: t("kind.session") }, { head: t("name"), left: true }, { head: t("session.ttl") }, { head: t("session.begun"), left: true, whole: true }, { head: t("who"), left: true }, { head: "" }],
    row: (s) => [s.id, own(s.name), write(times, s.ttl_seconds), t.instant(s.changed_at), s.changed_by, end(t("session.end"), s.id, () => endSession(app, s.id, done))],
  };
}

function counterRow(app: App): Rows<Counter> {
  const { t } = app;
  return {
    columns: [{ head: t("name") }, { head: t("value") }, { head: t("version") }, { head: t("changed"), left: true, whole: true }, { head: t("who"), left: true }],
    row: (c) => [c.name, BigInt(c.value).toLocaleString("en"), c.version, t.instant(c.changed_at), c.changed_by],
  };
}

/** Ends a session, which releases its locks: those that are shown to the reader, and what it acquires until then. */
function endSession(app: App, id: string, done: () => void): void {
  const { t, namespace } = app;
  const one = at(["sessions", id], { namespace });
  confirm(app, {
    title: t("session.end.of", { name: id }), removes: id, about: h("p", { class: "hint" }, t("session.about")),
    check: async () => {
      const session = await get<Session>(one, app.signal);
      await ask({ method: "DELETE", path: `${one}&dry_run=true` }, app.signal); // who may not is told so
      const has: Lock[] = [];
      for (let after: string | undefined = ""; after !== undefined;) {
        const some: List<Lock> = await get(at(["locks"], { namespace, after, limit: 1000 }), app.signal);
        has.push(...some.items.filter((l) => l.session === id));
        after = some.next;
      }
      const label = t("session.locks", { n: has.length });
      return [h("h3", {}, label), compared(app, label, [`${t("kind.session")} ${id}  ${session.name ?? ""}`, ...has.map((l) => `${t("kind.lock")} ${l.name}  ${l.value ?? ""}`)].map((line) => line.trimEnd()).join("\n"), "")];
    },
    make: async () => {
      await ask({ method: "DELETE", path: one }, app.signal);
      return done;
    },
  });
}
