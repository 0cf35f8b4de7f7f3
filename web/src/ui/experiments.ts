import { h, table, type Child } from "../dom";
import { times, write } from "../format";
import { call, Refused, type Experiment, type ExperimentList, type Fault } from "./api";
import { link, problem, type App, type Page } from "./app";
import { running } from "./live";

/** The experiments in the folder that was named, with their faults, to be started. */
export async function experiments(app: App): Promise<Page> {
  const { t } = app;
  const list = await call<ExperimentList>("GET", "/api/experiments", undefined, app.signal);
  const title = t("nav.experiments");
  if (!list.startable) return { title, content: h("p", {}, t("experiments.notNamed")) };
  if (list.experiments.length === 0) return { title, content: h("p", {}, t("experiments.none")) };
  const box = h("div");
  const busy = h("p", { role: "status" });
  const note = () => busy.replaceChildren(...(running(app.live) ? [t("start.busy"), " ", link("#/live", t("start.follow"))] : []));
  note();
  app.follow(note);
  const open = (e: Experiment) => {
    const d = dialog(app, e);
    box.replaceChildren(d);
    d.showModal();
  };
  return { title, content: [
    busy,
    table(title, [{ head: t("experiments.name") }, { head: t.report("col.variant"), left: true }, { head: t("experiments.takes") }, { head: t("experiments.state"), left: true }, { head: "" }],
      list.experiments.map((e) => [
        [h("b", {}, e.name ?? e.id), e.name && h("span", { class: "below" }, e.id), e.question && h("span", { class: "below" }, e.question)],
        e.variants.slice(0, 6).join(", ") + (e.variants.length > 6 ? ` ${t.report("n.more", { n: e.variants.length - 6 })}` : ""),
        e.faults.length > 0 ? "" : extent(app, e.rounds, e.load_seconds),
        status(app, e),
        e.faults.length === 0 && h("button", { type: "button", "aria-label": t("experiments.startOf", { name: e.name ?? e.id }), click: () => open(e) }, t("experiments.start")),
      ])),
    list.truncated && h("p", { class: "hint" }, t("experiments.truncated")), box,
  ] };
}

function extent(app: App, rounds: number, seconds: number): string {
  return `${app.t.report.plural("n.rounds", rounds)}, ${seconds > 0 ? length(seconds) : app.t("experiments.unknown")}`;
}

function length(seconds: number): string {
  return seconds < 120 ? write(times, seconds) : `${Math.round(seconds / 60)} min`;
}

function status(app: App, e: Experiment): Child {
  const { t } = app;
  const list = (key: "experiments.faults" | "experiments.warnings", faults: Fault[], open: boolean) =>
    h("details", { open }, h("summary", {}, t.plural(key, faults.length)), faultList(app, faults));
  return [
    e.faults.length > 0 ? list("experiments.faults", e.faults, true) : h("span", { class: "badge good" }, t("experiments.ready")),
    e.warnings.length > 0 && list("experiments.warnings", e.warnings, false),
  ];
}

function faultList(app: App, faults: Fault[]): HTMLElement {
  return h("ul", { class: "faults" }, faults.map((f) => h("li", {},
    f.line && `${app.t("experiments.at", { line: f.line, column: f.column ?? 1 })}: `, f.field && [h("code", {}, f.field), " "], h("span", { lang: "en" }, f.problem, f.hint && ` – ${f.hint}`))));
}

const usual = ["rounds", "warmup", "window", "seed"];

/** Asks how an experiment is to be run, and starts it. */
function dialog(app: App, e: Experiment): HTMLDialogElement {
  const { t } = app;
  const short = h("input", { type: "checkbox", disabled: !e.short });
  const names = [...Object.keys(e.variables ?? {}).sort(), ...usual.filter((n) => !Object.hasOwn(e.variables ?? {}, n))];
  const fields = names.map((name) => {
    const value = e.variables && Object.hasOwn(e.variables, name) ? e.variables[name] : undefined;
    return [name, h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: value || (value === "" ? t("start.varies") : undefined) })] as const;
  });
  const failed = h("div", { role: "alert" });
  const go = h("button", { type: "submit", class: "go" }, t("start.go"));
  const start = async () => {
    go.disabled = true;
    failed.replaceChildren();
    try {
      const set = Object.fromEntries(fields.flatMap(([name, box]) => (box.value.trim() === "" ? [] : [[name, box.value.trim()]])));
      await call("POST", "/api/runs", { experiment: e.id, short: short.checked, set });
      d.close();
      app.go("#/live");
    } catch (error) {
      failed.replaceChildren(problem(app.t, error), ...(error instanceof Refused && error.faults.length > 0 ? [faultList(app, error.faults)] : []));
    }
    go.disabled = false;
  };
  const d: HTMLDialogElement = h("dialog", { "aria-labelledby": "start-title" },
    h("form", { method: "dialog", submit: (event) => { event.preventDefault(); void start(); } },
      h("h2", { id: "start-title" }, t("experiments.startOf", { name: e.name ?? e.id })),
      h("p", { class: "hint" }, t("start.full", { rounds: t.report.plural("n.rounds", e.rounds), time: e.load_seconds > 0 ? length(e.load_seconds) : t("experiments.unknown") })),
      h("label", { class: "check" }, short, " ", e.short
        ? t("start.short", { rounds: t.report.plural("n.rounds", e.short.rounds), time: e.short.load_seconds > 0 ? length(e.short.load_seconds) : t("experiments.unknown") })
        : t("start.noShort")),
      h("fieldset", {}, h("legend", {}, t("start.overrides")), h("p", { class: "hint" }, t("start.overridesHint")),
        fields.map(([name, box]) => h("label", { class: "field" }, h("code", {}, name), box))),
      failed,
      h("p", { class: "actions" }, go, h("button", { type: "button", click: () => d.close() }, t("start.cancel")))));
  return d;
}
