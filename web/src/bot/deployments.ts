import { h, type Child } from "../dom";
import { controls, paged, part } from "../lists";
import type { Page } from "../shell";
import { ask, at, get, type Archive, type Deployment, type List } from "./manage";
import type { App } from "./operators";

const good = (state: string) => (state === "closed" ? "badge good" : state === "open" ? "badge bad" : "badge warn");

/** Deployments of models as the gateway reaches them, and what waits for the archive. */
export function deployments(app: App): Page {
  const { t } = app;
  const title = t("nav.deployments");
  const number = (n = 0) => n.toLocaleString("en");
  const reset = (id: string) => ask({ method: "POST", path: at(["deployments", id, "reset"]) }, app.signal)
    .then(async () => { await load(); app.say(t("deployment.done", { name: id })); }, async (error: unknown) => { await load(); host.prepend(app.problem(error)); });
  const list = async (): Promise<Child> => {
    const found = await get<List<Deployment>>(at(["deployments"], { limit: 100, after: app.query.get("after") ?? "" }), app.signal);
    return paged(app, title, [{ head: t("deployment") }, { head: t("provider"), left: true }, { head: t("models"), left: true }, { head: t("weight") }, { head: t("state"), left: true }, { head: t("active") }, { head: t("asked") }, { head: t("failures") }, { head: "" }],
      found.items.map((d) => [
        d.id, d.provider, d.models?.join(", ") ?? "–", d.weight,
        [d.state && h("span", { class: good(d.state) }, t.maybe(`state.${d.state}`, d.state)), d.until && [" ", t("state.until", { time: t.instant(d.until) })], d.declared && [" ", h("span", { class: "badge" }, t("declared"))]],
        number(d.in_flight), number(d.calls), number(d.failures), app.edits && h("button", { type: "button", "aria-label": `${t("deployment.reset")} ${d.id}`, click: () => void reset(d.id) }, t("deployment.reset")),
      ]), found.next);
  };
  const { host, load } = part(app, async () => {
    const archive = await get<Archive>(at(["archive"]), app.signal);
    return [
      await list(),
      h("section", {}, h("h2", {}, t("archive")), h("p", {}, t("archive.state", { kind: archive.kind, n: number(archive.pending) }), archive.failing && [" ", t("archive.failing")])),
    ];
  });
  void load();
  return { title, content: [controls(h("button", { type: "button", click: () => void load() }, t("usage.refresh"))), host] };
}
