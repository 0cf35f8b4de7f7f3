import { choice, h, table, type Child } from "../dom";
import type { Page } from "../shell";
import { controls, paged, part, search } from "../lists";
import { again, live, namespaces, onPage, page, wanted, type App } from "./app";
import { at, folders, get, type Kind, type List, type Rollout } from "./api";

const perPage = 50, clients = 500;

export const kindOf = (text: string | null | undefined): Kind => (text === "policy" ? "policy" : "config");

/** How far the newest versions of a namespace's resources have come. */
export async function rollouts(app: App): Promise<Page> {
  const { t } = app;
  const title = t("nav.rollouts");
  const kind = kindOf(app.query.get("kind"));
  const { host, load } = part(app, async () => {
    const list = await get<List<Rollout>>(at(["rollouts", folders[kind]], { ...wanted(app), limit: perPage }), app.signal);
    return paged(app, title, [{ head: t("name") }, { head: t("version") }, { head: t("clients") }, { head: t("applied") }, { head: t("refused") }, { head: t("pending") }],
      list.items.map((r) => [h("a", { href: page(app, ["rollout", kind, r.name]) }, r.name), r.version, r.clients, r.applied, r.refused > 0 ? h("span", { class: "badge bad" }, r.refused) : 0, r.pending]), list.next);
  });
  const bar = controls(await namespaces(app), choice(t("kind"), [["config", t("nav.configs")], ["policy", t("nav.policies")]], kind, (k) => app.go(page(app, ["rollouts"], { kind: k }))), search(app, t("search.name"), load));
  again(app, load, 3000);
  void load();
  return { title, content: [bar, h("p", { class: "hint" }, t("rollout.replica")), host] };
}

/** Which client runs which version of a resource, as it becomes known. */
export function rollout(app: App, kind: Kind, name: string): Page {
  const { t } = app;
  const host = h("div", { "aria-busy": "true" });
  const { box, find } = onPage(app, host);
  const state = live(app, at([folders[kind], name, "rollout", "watch"], { namespace: app.namespace, limit: clients }), (m) => {
    host.replaceChildren(h("div", {}, m.type === "removed" ? h("p", { class: "alarm" }, t("removed")) : holdings(app, JSON.parse(m.data) as Rollout)));
    host.removeAttribute("aria-busy");
    find();
  });
  return { title: t("rollout.of", { name }), content: [
    h("p", {}, h("a", { href: page(app, [kind, name]) }, t(`kind.${kind}`))), controls(box), state, host, h("p", { class: "hint" }, t("rollout.replica")),
  ] };
}

/** Which data planes have the newest instances of a service. */
export function instancesRollout(app: App, name: string): Page {
  const { t } = app;
  const { host, load } = part(app, async () => holdings(app, await get<Rollout>(at(["services", name, "rollout"], { namespace: app.namespace, limit: clients }), app.signal)));
  again(app, load, 3000);
  void load();
  return { title: t("rollout.of", { name }), content: [h("p", {}, h("a", { href: page(app, ["service", name]) }, t("service"))), host, h("p", { class: "hint" }, t("rollout.replica"))] };
}

function holdings(app: App, r: Rollout): Child {
  const { t } = app;
  const figure = (label: string, n: number, kind = "") => [h("dt", {}, label), h("dd", { class: n > 0 ? kind : undefined }, n.toLocaleString("en"))];
  const versions = Object.entries(r.versions).map(([v, n]) => [Number(v), n] as const).toSorted(([a], [b]) => b - a);
  return [
    h("div", { class: "readings" }, [figure(t("version"), r.version), figure(t("clients"), r.clients), figure(t("applied"), r.applied), figure(t("refused"), r.refused, "bad"), figure(t("pending"), r.pending)].map((pair) => h("dl", {}, pair))),
    versions.length > 0 && h("p", { class: "hint" }, versions.map(([v, n]) => (v === 0 ? t("running.unknown", { n }) : t("running", { version: v, n }))).join(" · ")),
    r.holdings.length > 0 && table(t("clients"), [{ head: t("client") }, { head: t("state"), left: true }, { head: t("version") }, { head: t("runs") }, { head: t("reason"), left: true }, { head: t("at"), left: true, whole: true }],
      r.holdings.map((x) => [
        x.client, [h("span", { class: `badge ${{ sent: "", applied: "good", refused: "bad" }[x.state]}` }, t(`state.${x.state}`)), !x.connected && [" ", h("span", { class: "badge warn" }, t("away"))]],
        x.version, x.running_version || "–", h("span", { "data-own": "" }, x.reason ?? ""), t.instant(x.at),
      ])),
    r.clients > r.holdings.length && h("p", { class: "hint" }, t("clients.more", { n: r.clients - r.holdings.length })),
    r.clients === 0 && h("p", {}, t("clients.none")),
    r.unrecorded > 0 && h("p", { class: "hint" }, t("unrecorded", { n: r.unrecorded })),
  ];
}
