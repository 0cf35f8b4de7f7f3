import { h, select } from "../dom";
import type { Page } from "../shell";
import { controls, page, paged, part, type App } from "./app";
import { at, folders, get, type Audit, type List } from "./api";

const perPage = 200;

/** Who changed what, from some time on. */
export function audit(app: App): Page {
  const { t } = app;
  const title = t("nav.audit");
  const hours = app.query.get("hours") ?? "1";
  const box = h("input", { type: "search", input: () => show() });
  let shown: [string, HTMLTableRowElement][] = [];
  // Only what is on the page is searched: the journal has no index.
  const show = () => {
    for (const [text, row] of shown) row.hidden = !text.includes(box.value.trim().toLowerCase());
  };
  const { host, load } = part(app, async () => {
    const from = Number(hours) > 0 ? new Date(Date.now() - 3_600_000 * Number(hours)).toISOString() : "";
    const list = await get<List<Audit>>(at(["audit"], { limit: perPage, after: app.query.get("after") ?? "", from }), app.signal);
    const rows = list.items.map((a) => {
      const what = `${a.namespace}/${a.name}${a.id ? `/${a.id}` : ""}`;
      const target = page({ ...app, namespace: a.namespace }, a.kind === "instance" ? ["service", a.name] : [a.kind, a.name]);
      const hasPage = a.kind === "instance" || a.kind in folders; // others have no page
      return [t.instant(a.at), a.who, a.from, t.known(`act.${a.act}`, a.act), [t(`kind.${a.kind}`), " ", hasPage ? h("a", { href: target }, what) : what], a.old_version ?? "–", a.new_version ?? "–"];
    });
    const found = h("div", {}, paged(app, title, [{ head: t("at") }, { head: t("who"), left: true }, { head: t("from"), left: true, whole: true }, { head: t("act"), left: true, whole: true }, { head: t("what"), left: true }, { head: t("old") }, { head: t("new") }], rows, list.next));
    shown = [...found.querySelectorAll<HTMLTableRowElement>("tbody tr")].map((row) => [row.textContent.toLowerCase(), row]);
    show();
    return found;
  });
  void load();
  return { title, content: [
    controls(select(t("since"), [["0.25", t("since.quarter")], ["1", t("since.hour")], ["24", t("since.day")], ["0", t("since.ever")]], hours, (value) => app.go(page(app, ["audit"], { hours: value }))),
      h("label", { class: "select wide" }, h("span", {}, t("search.page")), box)),
    h("p", { class: "hint" }, t("audit.order")), host,
  ] };
}
