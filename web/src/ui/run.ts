import { h, type Child } from "../dom";
import { textsIn, type Key } from "../i18n";
import { comparisons, ladder } from "../report/comparison";
import { workOf, type Context } from "../report/context";
import { figures } from "../report/figures";
import { claims, environment, notes, reproduce, thresholds } from "../report/outcomes";
import { validity } from "../report/validity";
import { brief, commands, facts, sentences, verdicts } from "../report/answer";
import { said } from "../report/say";
import { call, pathOf, type Document, type RunList } from "./api";
import { comparePage, historyPage, link, problem, type App, type Page } from "./app";
import { state } from "./runs";

/** A run as run.json has it; curves, time lines and profiles are in its report. */
export async function run(app: App, id: string): Promise<Page> {
  const { t } = app;
  const [doc, list] = await Promise.all([
    call<Document>("GET", pathOf(id), undefined, app.signal),
    call<RunList>("GET", `/api/runs?limit=500&query=${encodeURIComponent(id)}`, undefined, app.signal),
  ]);
  const entry = list.runs.find((r) => r.id === id);
  const c: Context = {
    doc: { version: 1, run: doc, answer: doc.answer, units: doc.units }, t: textsIn(t.language, workOf(doc)), redraws: [], ends: [],
    chosen: { language: t.language, theme: "auto", hidden: new Set(), search: "" },
  };
  app.left(() => c.ends.forEach((end) => end()));
  const section = (key: Key, make: (c: Context) => Child[]): Child => {
    const box = h("section", {}, h("h2", {}, c.t(key)), make(c));
    return box.childNodes.length > 1 ? box : null;
  };
  return { title: id, content: [
    doc.question && h("p", { class: "question" }, doc.question),
    h("p", {}, entry && state(app, entry), " ", t.instant(doc.started_at)),
    verdicts(c),
    sentences(c.t, doc.answer).map((s) => h("p", { class: "sentence" }, s)),
    brief(c, doc.answer.table),
    facts(c, doc.answer),
    commands(c),
    h("p", { class: "actions" },
      entry?.report && h("a", { href: entry.report, target: "_blank", rel: "noopener", class: "action" }, t("run.report")),
      entry?.state === "running" && link("#/live", t("run.follow")),
      link(historyPage(doc.name), t("run.history")),
      doc.baseline && link(comparePage(doc.baseline, id), t("run.baseline", { run: doc.baseline }))),
    annotations(app, id, doc),
    !doc.complete && doc.reason && h("p", { class: "alarm" }, t("run.incomplete"), " ", said(c.t, doc.reason)),
    section("section.ladder", ladder),
    section("section.comparison", comparisons),
    section("section.thresholds", thresholds),
    section("section.claims", claims),
    section("section.validity", validity),
    section("section.figures", figures),
    h("p", { class: "hint" }, t("run.interval")),
    section("section.environment", environment),
    section("section.reproduce", reproduce),
    section("section.notes", notes),
  ] };
}

/** The form for what people say about a run. */
function annotations(app: App, id: string, { annotations: a }: Document): HTMLElement {
  const { t } = app;
  const tags = h("input", { type: "text", value: (a.tags ?? []).join(" ") });
  const note = h("textarea", { rows: 2 }, a.note);
  const pinned = h("input", { type: "checkbox", checked: a.pinned_at !== undefined });
  const outcome = h("span", { role: "status" });
  const save = async () => {
    outcome.replaceChildren();
    try {
      await call("POST", `${pathOf(id)}/annotations`, { tags: tags.value.split(/\s+/).filter(Boolean), note: note.value, pinned: pinned.checked }, app.signal);
      outcome.replaceChildren(t("run.saved"));
    } catch (error) {
      outcome.replaceChildren(problem(t, error));
    }
  };
  const field = (text: string, box: HTMLElement) => h("label", { class: "field" }, h("span", {}, text), box);
  return h("form", { class: "annotations", submit: (e) => { e.preventDefault(); void save(); } },
    field(t("run.tags"), tags), field(t("run.note"), note), h("label", { class: "check" }, pinned, t("run.pinned")),
    h("p", { class: "actions" }, h("button", { type: "submit" }, t("run.annotate")), outcome));
}
