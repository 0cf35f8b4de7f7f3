import { h, select, table, type Child } from "../dom";
import { times, write } from "../format";
import type { Page } from "../shell";
import { confirm, Wrong } from "../dialog";
import { controls, paged, part, search } from "../lists";
import { again, liveList, namespaces, page, problem, wanted, type App } from "./app";
import { ask, at, get, Problem, type Answer, type Health, type Instance, type List } from "./api";
import { compared, propose } from "./change";

const perPage = 100;

/** The services of a namespace. */
export async function services(app: App): Promise<Page> {
  const { t } = app;
  const title = t("nav.services");
  let since: string | undefined;
  const state = h("div");
  const { host, load } = part(app, async () => {
    const list = await get<List<{ name: string; instances: number }>>(at(["services"], { ...wanted(app), limit: perPage }), app.signal);
    if (since === undefined) state.append(liveList(app, { kind: "instance", since: since = list.watch }, load));
    return paged(app, title, [{ head: t("service") }, { head: t("instances") }],
      list.items.map((s) => [h("a", { href: page(app, ["service", s.name]) }, s.name), s.instances.toLocaleString("en")]), list.next);
  });
  const bar = controls(await namespaces(app), search(app, t("search.name"), load));
  void load();
  return { title, content: [bar, state, host] };
}

const statuses = ["up", "draining", "down"] as const;
const healths = ["passing", "warning", "critical"] as const;

/** The instances of a service. Heartbeats are no changes: their age is asked for. */
export function service(app: App, name: string): Page {
  const { t } = app;
  let since: string | undefined;
  const state = h("div");
  const filter = () => ({ status: app.query.get("status") ?? "", health: app.query.get("health") ?? "" });
  const narrow = (to: Partial<ReturnType<typeof filter>>) => app.go(page(app, ["service", name], { search: app.query.get("search") ?? "", ...filter(), ...to }));
  const { host, load } = part(app, async () => {
    const list = await get<List<Instance> & { protected: boolean }>(at(["services", name, "instances"], { ...wanted(app), ...filter(), limit: perPage }), app.signal);
    if (since === undefined) state.append(liveList(app, { kind: "instance", name, since: since = list.watch }, load));
    return [
      list.protected && h("p", { class: "alarm" }, t("protected")),
      paged(app, t("instances"), [{ head: t("instance") }, { head: t("address"), left: true, whole: true }, { head: t("health"), left: true }, { head: t("zone"), left: true, whole: true }, { head: t("weight") }, { head: t("heard") }, { head: t("replica"), left: true, whole: true }, { head: t("version") }],
        list.items.map((i) => [h("a", { href: page(app, ["instance", name, i.id]) }, i.id), place(i), health(app, i), i.zone ?? "–", i.weight, heard(app, i), i.holder ?? "–", i.version]), list.next),
    ];
  });
  again(app, load, 5000);
  void load();
  return { title: name, content: [
    controls(search(app, t("search.instance"), load),
      select(t("health"), [["", t("all")], ...healths.map((s) => [s, t(`health.${s}`)] as [string, string])], filter().health, (s) => narrow({ health: s })),
      select(t("status"), [["", t("all")], ...statuses.map((s) => [s, t(`status.${s}`)] as [string, string])], filter().status, (s) => narrow({ status: s })),
      h("a", { href: page(app, ["rollout", "instance", name]) }, t("rollout.of", { name })),
      h("button", { type: "button", class: "danger", click: () => removeService(app, name) }, t("remove.service"))),
    state, host,
  ] };
}

const place = (i: Instance) => (i.address.includes(":") ? `[${i.address}]:${i.port}` : `${i.address}:${i.port}`);

const pathOf = (app: App, service: string, id: string) => at(["services", service, "instances", id], { namespace: app.namespace });

/** One instance, which can be taken off. */
export function instance(app: App, service: string, id: string): Page {
  const { t } = app;
  const one = pathOf(app, service, id);
  const back = page(app, ["service", service]);
  const { host, load } = part(app, async () => {
    const current = await ask<Instance>({ method: "GET", path: one }, app.signal);
    // Only lists say whether it is silent.
    const same = await get<List<Instance>>(at(["services", service, "instances"], { namespace: app.namespace, search: id, limit: 1000 }), app.signal);
    const i: Instance = { ...current.value, overdue: same.items.find((one) => one.id === id)?.overdue ?? false };
    const changed = () => void load();
    const pair = (label: string, value: Child) => [h("dt", {}, label), h("dd", {}, value)];
    return [
      h("dl", {}, pair(t("service"), h("a", { href: back }, service)), pair(t("address"), place(i)), pair(t("health"), health(app, i)), pair(t("zone"), i.zone ?? "–"), pair(t("weight"), i.weight),
        i.maintenance && pair(t("maintenance"), h("span", { "data-own": "" }, i.maintenance)), !i.checks && pair(t("ttl"), write(times, i.ttl_seconds)),
        i.checks && pair(t("deregister"), i.deregister_after_seconds ? write(times, i.deregister_after_seconds) : t("never")), pair(t("replica"), i.holder ?? "–"), pair(t("version"), i.version), pair(t("changed"), [t.instant(i.changed_at), " · ", i.changed_by]),
        i.metadata && pair(t("metadata"), Object.entries(i.metadata).map(([name, value]) => h("code", { class: "pair" }, `${name}=${value}`)))),
      i.checks && checks(app, i),
      h("p", { class: "actions" }, i.maintenance
        ? h("button", { type: "button", click: () => propose(app, {
          title: t("maintenance.end"), kind: "instance", base: current, path: () => one, done: changed, request: () => ({ method: "DELETE", path: one.replace("?", "/maintenance?") }),
        }) }, t("maintenance.end"))
        : h("button", { type: "button", click: () => maintain(app, one, current, changed) }, t("maintenance.begin")),
      h("button", { type: "button", class: "danger", click: () => propose(app, {
        title: t("remove.of", { name: id }), kind: "instance", base: current, removes: id, about: h("p", { class: "hint" }, t("remove.again")), path: () => one,
        request: () => ({ method: "DELETE", path: one }), done: () => app.go(back),
      }) }, t("remove"))),
    ];
  });
  again(app, load, 5000);
  void load();
  return { title: id, content: host };
}

/** What each check of an instance has found, and since when. */
function checks(app: App, i: Instance): Child {
  const { t } = app;
  const rows = i.checks!.map((c) => {
    const name = c.name ?? c.type;
    const found = i.results?.find((r) => r.name === name);
    return [name, c.type, badge(app, found?.health ?? "critical"), found ? h("code", {}, found.output ?? "") : t("check.none"), t.instant(found?.since)];
  });
  return h("section", {}, h("h2", {}, t("checks")), table(t("checks"), [{ head: t("check") }, { head: t("type.check"), left: true, whole: true }, { head: t("health"), left: true, whole: true }, { head: t("output"), left: true }, { head: t("check.since"), left: true, whole: true }], rows));
}

/** Keeps requests away from an instance, for a reason. */
function maintain(app: App, one: string, current: Answer<Instance>, changed: () => void): void {
  const { t } = app;
  const reason = h("input", { type: "text", autocomplete: "off", required: true, maxlength: 256 });
  propose(app, {
    title: t("maintenance.begin"), kind: "instance", base: current, path: () => one, done: changed, about: h("p", { class: "hint" }, t("maintenance.about")),
    form: h("label", { class: "field" }, h("span", {}, t("reason")), reason),
    request: () => ({ method: "PUT", path: one.replace("?", "/maintenance?"), body: { reason: reason.value } }),
  });
}

const atOnce = 8; // requests under way

/** Takes a service off, which is there for as long as it has instances: those that are shown
 * to the reader. One is what its ID says, whatever has become of it meanwhile. */
function removeService(app: App, name: string): void {
  const { t } = app;
  let list: Instance[] = [], removed = 0;
  confirm(app, {
    title: t("remove.of", { name }), removes: name, about: h("p", { class: "hint" }, t("remove.again")),
    check: async () => {
      list = [];
      removed = 0;
      for (let after: string | undefined = ""; after !== undefined;) {
        const some: List<Instance> = await get(at(["services", name, "instances"], { namespace: app.namespace, after, limit: 1000 }), app.signal);
        list.push(...some.items);
        after = some.next;
      }
      if (list.length === 0) throw new Wrong(t("none"));
      await ask({ method: "DELETE", path: `${pathOf(app, name, list[0]!.id)}&dry_run=true` }, app.signal); // who may not is told so
      const label = t.plural("remove.instances", list.length);
      return [h("h3", {}, label), compared(app, label, list.map((i) => `${i.id}  ${place(i)}  ${t(`status.${i.status}`)}`).join("\n"), "")];
    },
    make: async () => {
      const waiting = [...list];
      await Promise.all(Array.from({ length: atOnce }, async () => {
        for (let i = waiting.shift(); i; i = waiting.shift()) {
          try {
            await ask({ method: "DELETE", path: pathOf(app, name, i.id) }, app.signal);
          } catch (error) {
            if (!(error instanceof Problem && error.status === 404)) { // gone by itself
              waiting.length = 0;
              throw error;
            }
          }
          removed++;
        }
      }));
      return () => app.go(page(app, ["services"]));
    },
    again: async (error) => (removed > 0 ? [h("p", { role: "alert", class: "alarm" }, t("remove.some", { removed, all: list.length })), problem(t, error)] : null),
  });
}

function health(app: App, i: Instance): Child {
  return [
    i.overdue ? h("span", { class: "badge bad" }, app.t("status.overdue")) : h("span", { class: `badge ${{ up: "good", draining: "warn", down: "bad" }[i.status]}` }, app.t(`status.${i.status}`)),
    i.health && [" ", badge(app, i.health)],
    i.maintenance && [" ", h("span", { class: "badge warn", title: i.maintenance, "data-own": "" }, app.t("maintained"))],
  ];
}

const badge = (app: App, found: Health) => h("span", { class: `badge ${{ passing: "good", warning: "warn", critical: "bad" }[found]}` }, app.t(`health.${found}`));

function heard(app: App, i: Instance): Child {
  if (i.checks) return h("span", { class: "hint" }, app.t("checked"));
  if (i.heard_seconds === undefined) return h("span", { class: "hint" }, app.t("heard.elsewhere"));
  return [write(times, i.heard_seconds), h("span", { class: "hint" }, ` / ${write(times, i.ttl_seconds)}`)];
}
