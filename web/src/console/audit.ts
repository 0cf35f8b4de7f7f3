import { h, select } from "../dom";
import type { Page } from "../shell";
import { controls, local, paged, part, remember, search } from "../lists";
import { page, type App } from "./app";
import { at, folders, get, type Audit, type List } from "./api";

const perRequest = 1000, mostRequests = 10, mostShown = 500;

/** The changes in a range of time, oldest first, and where to go on if there are too many. The journal has no index, so
 * it is read whole. */
async function read(app: App, from: number, to: number): Promise<{ notes: Audit[]; next: string | undefined }> {
  const notes: Audit[] = [];
  let next: string | undefined = app.query.get("after") ?? "";
  for (let n = 0; n < mostRequests && next !== undefined; n++) {
    const list: List<Audit> = await get(at(["audit"], { limit: perRequest, after: next, from: from > 0 ? new Date(from).toISOString() : "" }), app.signal);
    notes.push(...list.items.filter((a) => !(Date.parse(a.at) >= to)));
    next = Date.parse(list.items.at(-1)?.at ?? "") >= to ? undefined : list.next;
  }
  return { notes, next };
}

/** Who changed what, in a range of time, newest first. */
export function audit(app: App): Page {
  const { t } = app;
  const title = t("nav.audit");
  const wanted = (name: string) => app.query.get(name) ?? "";
  const kindOf = (kind: string) => t.known(`kind.${kind}`, kind);
  const hours = wanted("hours") || "1";
  const from = Date.parse(wanted("from")) || (Number(hours) > 0 ? Date.now() - 3_600_000 * Number(hours) : 0), to = Date.parse(wanted("to")) || Infinity;
  const { host, load } = part(app, async () => {
    const { notes, next } = await read(app, from, to);
    const found = h("div");
    const show = () => {
      const rows = notes.filter((a) => (!wanted("kind") || a.kind === wanted("kind")) && (!wanted("who") || a.who === wanted("who"))).map((a) => {
        const what = `${a.namespace}/${a.name}${a.id ? `/${a.id}` : ""}`;
        const target = page({ ...app, namespace: a.namespace }, a.kind === "instance" ? ["service", a.name] : [a.kind, a.name]);
        return { a, what, target, act: t.known(`act.${a.act}`, a.act), kind: kindOf(a.kind) };
      }).filter(({ a, what, act, kind }) => [a.who, a.from, act, kind, what].join(" ").toLowerCase().includes(wanted("search").toLowerCase())).reverse();
      found.replaceChildren(h("div", {},
        h("p", { class: "hint" }, t("audit.shown", { shown: Math.min(rows.length, mostShown), found: rows.length, all: notes.length }), next && [" ", t("audit.more")]),
        paged(app, title, [{ head: t("at") }, { head: t("who"), left: true }, { head: t("from"), left: true, whole: true }, { head: t("act"), left: true, whole: true }, { head: t("what"), left: true }, { head: t("old") }, { head: t("new") }],
          rows.slice(0, mostShown).map(({ a, what, target, act, kind }) => [t.instant(a.at), a.who, a.from, act, [kind, " ", a.kind === "instance" || a.kind in folders ? h("a", { href: target }, what) : what], a.old_version ?? "–", a.new_version ?? "–"]), next)));
    };
    const one = (name: "kind" | "who", values: [string, string][]) => select(t(name), [["", t("all")], ...values], wanted(name), (value) => { remember(app, name, value); show(); });
    const values = (name: "kind" | "who") => [...new Set([...notes.map((a) => a[name]), wanted(name)])].filter((value) => value).sort();
    show();
    return [controls(one("kind", values("kind").map((kind) => [kind, kindOf(kind)])), one("who", values("who").map((who) => [who, who])), search(app, t("search.audit"), async () => show())), found];
  });
  const time = (name: "from" | "to", label: string, value: number) => {
    const box = h("input", { type: "datetime-local", value: value > 0 && value < Infinity && local(value), change: () => app.go(page(app, ["audit"], { hours, from: wanted("from"), to: wanted("to"), [name]: box.value })) });
    return h("label", { class: "select" }, h("span", {}, label), box);
  };
  void load();
  return { title, content: [
    controls(select(t("since"), [["0.25", t("since.quarter")], ["1", t("since.hour")], ["24", t("since.day")], ["168", t("since.week")], ["0", t("since.ever")]], hours, (value) => app.go(page(app, ["audit"], { hours: value }))),
      time("from", t("audit.from"), from), time("to", t("audit.to"), to)),
    host,
  ] };
}
