import { h, table, type Child, type Title } from "../dom";
import { estimate, margin, probability, unitOf } from "../format";
import { ratioAxis, ratioInterval, ratioScale } from "../charts/intervals";
import { shown } from "../report/comparison";
import { spoken } from "../report/say";
import { call, type Difference } from "./api";
import { comparePage, link, runPage, type App, type Page } from "./app";
import { word } from "./runs";

const drawn = 220;

/** Two runs side by side: first whether they can be compared, then all figures. */
export async function compare(app: App, a: string, b: string): Promise<Page> {
  const { t } = app;
  const d = await call<Difference>("GET", `/api/diff?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`, undefined, app.signal);
  const runs = [["compare.old", a, d.old], ["compare.new", b, d.new]] as const;
  const disparities = d.disparities ?? [];
  return { title: t("compare.title"), content: [
    table(t("compare.title"), [{ head: "" }, { head: t("runs.run"), left: true }, { head: t("runs.started"), left: true }, { head: t("experiments.state"), left: true }, { head: t.report("env.version"), left: true }],
      runs.map(([key, id, r]) => [t(key), link(runPage(id), id), t.instant(r.started_at), t(!r.valid ? "state.invalid" : !r.complete ? "state.incomplete" : "state.valid"), r.dyno_version ?? "–"])),
    h("p", { class: "actions" }, link(comparePage(b, a), t("compare.swap"))),
    h("p", {}, spoken(t.report, d.caveat)),
    (d.notes ?? []).map((n) => h("p", { class: "alarm" }, spoken(t.report, n))),
    disparities.length === 0 ? h("p", {}, t("compare.same")) : h("section", {}, h("h2", {}, t("compare.differ")),
      table(t("compare.differ"), [{ head: t("compare.where") }, { head: t("compare.what"), left: true }, { head: t("compare.old"), left: true }, { head: t("compare.new"), left: true }],
        disparities.map((x) => [x.variant || t(x.where === "machine" ? "compare.machine" : "compare.plan"), spoken(t.report, x.what), spoken(t.report, x.old), spoken(t.report, x.new)]))),
    h("section", {}, h("h2", {}, t.report("section.comparison")), figures(app, d)),
    (d.only_old?.length ?? 0) > 0 && h("p", {}, t("compare.onlyOld", { names: d.only_old!.join(", ") })),
    (d.only_new?.length ?? 0) > 0 && h("p", {}, t("compare.onlyNew", { names: d.only_new!.join(", ") })),
    h("p", { class: "hint" }, t("compare.hint")),
  ] };
}

function figures(app: App, d: Difference): Child {
  const { t } = app;
  const rows: (Child[] | Title)[] = [];
  const details: Child[] = [];
  for (const variant of [...new Set(d.comparisons.map((c) => c.variant))]) {
    const own = d.comparisons.filter((c) => c.variant === variant);
    const scale = ratioScale(own.map((c) => c.ratio), d.margin, drawn);
    rows.push({ title: [variant, "", "", ratioAxis(scale, drawn), "", "", ""] });
    for (const c of own) {
      const change = shown(c.ratio, c.verdict, c.equivalence, d.margin);
      const unit = unitOf(c.metric);
      rows.push([
        h("span", { title: c.metric }, t.report.metric(c.metric)), estimate(unit, c.old), estimate(unit, c.new),
        ratioInterval(c.ratio, scale, d.margin, drawn, `${c.metric}: ${change}`, c.verdict), change, probability(c.adjusted_p ?? c.p), word(app, c.verdict),
      ]);
      if (c.detail) details.push(h("p", { class: "hint" }, `${variant}, ${t.report.metric(c.metric)}: `, spoken(t.report, c.detail)));
    }
  }
  return [table(t.report("section.comparison"), [
    { head: t.report("col.variant") }, { head: t("compare.old") }, { head: t("compare.new") }, { head: t.report("col.drawn"), left: true }, { head: t.report("col.change"), left: true }, { head: t.report("col.p") }, { head: t.report("col.verdict"), left: true },
  ], rows), details, h("p", { class: "hint" }, t("compare.margin", { margin: margin(d.margin) }))];
}
