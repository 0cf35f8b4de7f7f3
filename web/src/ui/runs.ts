import { h, select, table, type Child } from "../dom";
import { change, estimate, unitOf } from "../format";
import { sign } from "../report/comparison";
import { said } from "../report/say";
import { call, states, type Run, type RunList } from "./api";
import { tags } from "../report/history";
import { comparePage, link, problem, runPage, severalPage, type App, type Page } from "./app";

const paged = 50;
const most = 8; // side by side
const filters = ["query", "experiment", "state", "from", "to", "where"] as const;

/** The list of runs. What it shows stands in the address. */
export function runs(app: App, query: URLSearchParams): Page {
  const { t } = app;
  const chosen = new URLSearchParams();
  for (const name of [...filters, "offset"]) if (query.get(name)) chosen.set(name, query.get(name)!);
  const found = h("p", { class: "found", role: "status" });
  const host = h("div", { "aria-busy": "true" });
  const picked: Run[] = [];
  const bar = h("div", { class: "picks" });
  let experiments: string[] | undefined;
  const experimentBox = h("span");

  const pick = () => {
    const ids = picked.toSorted((x, y) => Date.parse(x.started_at ?? "") - Date.parse(y.started_at ?? "")).map((r) => r.id);
    bar.replaceChildren(h("button", { type: "button", disabled: ids.length < 2, click: () => app.go(ids.length === 2 ? comparePage(ids[0]!, ids[1]!) : severalPage(ids)) }, t("runs.compare")), " ",
      h("span", { class: "hint" }, ids.length > 0 ? ids.join(" · ") : t("runs.pickHint")));
    for (const box of host.querySelectorAll<HTMLInputElement>("input[type=checkbox]")) box.disabled = picked.length === most && !box.checked;
  };
  const set = (name: string, value: string) => {
    if (value) chosen.set(name, value);
    else chosen.delete(name);
    if (name !== "offset") chosen.delete("offset");
    history.replaceState(null, "", `#/runs${chosen.size > 0 ? `?${chosen}` : ""}`);
    void load();
  };
  let asked = 0, timer = 0;
  const load = async () => {
    const current = ++asked;
    clearTimeout(timer);
    host.setAttribute("aria-busy", "true");
    try {
      const list = await call<RunList>("GET", `/api/runs?limit=${paged}&${chosen}`, undefined, app.signal);
      if (current !== asked) return;
      if (String(list.experiments) !== String(experiments)) {
        experiments = list.experiments;
        experimentBox.replaceChildren(select(t("runs.experiment"), [["", t("runs.all")], ...experiments.map((e) => [e, e] as [string, string])], chosen.get("experiment") ?? "", (v) => set("experiment", v)));
      }
      found.textContent = [t("runs.found", { matched: list.matched, total: list.total }), list.pending > 0 && t("runs.pending", { n: list.pending }), list.truncated && t("runs.truncated")].filter(Boolean).join(" · ");
      host.replaceChildren(h("div", {}, list.runs.length > 0 ? rows(app, list.runs, picked, pick) : h("p", {}, t("runs.none")), pages(app, list, Number(chosen.get("offset") ?? 0), (v) => set("offset", v))));
      pick();
      if (list.pending > 0) timer = window.setTimeout(() => void load(), 1000);
    } catch (error) {
      if (app.signal.aborted || current !== asked) return;
      host.replaceChildren(problem(app.t, error));
    }
    host.removeAttribute("aria-busy");
  };
  let typing = 0;
  const search = h("input", { type: "search", value: chosen.get("query") ?? "", input: () => {
    clearTimeout(typing);
    typing = window.setTimeout(() => set("query", search.value.trim()), 200);
  } });
  const day = (name: "from" | "to", text: string) => {
    const box = h("input", { type: "date", value: chosen.get(name) ?? "", change: () => set(name, box.value) });
    return h("label", { class: "select" }, h("span", {}, text), box);
  };
  const where = h("input", { type: "text", value: chosen.get("where") ?? "", placeholder: "response.p99 > 20ms", change: () => set("where", where.value.trim()) });
  app.left(() => { clearTimeout(typing); clearTimeout(timer); });
  // Others make runs too: who comes back to the page sees them.
  addEventListener("focus", () => void load(), { signal: app.signal });
  app.follow((kind) => { if (kind === "run" || kind === "ended") void load(); });
  void load();
  return { title: t("nav.runs"), content: [
    h("form", { class: "controls", role: "search", submit: (e) => e.preventDefault() },
      h("label", { class: "select wide" }, h("span", {}, t("runs.search")), search),
      experimentBox,
      select(t("runs.state"), [["", t("runs.all")], ...states.map((s) => [s, t(`state.${s}`)] as [string, string])], chosen.get("state") ?? "", (v) => set("state", v)),
      day("from", t("runs.from")), day("to", t("runs.to")),
      h("label", { class: "select" }, h("span", {}, t("runs.where")), where)),
    found, bar, host,
  ] };
}

function rows(app: App, list: Run[], picked: Run[], changed: () => void): HTMLElement {
  const { t } = app;
  return table(t("nav.runs"), [
    { head: t("runs.run") }, { head: t("experiments.state"), left: true }, { head: t("runs.result"), left: true }, { head: t("runs.started"), left: true }, { head: t("runs.flags") }, { head: t("runs.pick") },
  ], list.map((r) => {
    const box = h("input", { type: "checkbox", "aria-label": t("runs.pickOf", { id: r.id }), checked: picked.some((p) => p.id === r.id), change: () => {
      const at = picked.findIndex((p) => p.id === r.id);
      if (at >= 0) picked.splice(at, 1);
      if (box.checked) picked.push(r);
      changed();
    } });
    return [
      [r.state === "broken" ? h("span", {}, r.id) : link(r.state === "running" ? "#/live" : runPage(r.id), r.id), r.question && h("span", { class: "below" }, r.question),
        (r.tags || r.pinned_at) && h("span", { class: "below" }, r.pinned_at && [h("span", { class: "badge good" }, t.report("history.isBaseline")), " "], tags(r)), r.note && h("span", { class: "below" }, r.note)],
      state(app, r), result(app, r), h("span", { class: "line" }, t.instant(r.started_at)), r.flags || "", r.state !== "broken" && box,
    ];
  }));
}

export function state(app: App, r: Run): Child {
  const [kind, sign] = { valid: ["good", "✓"], disturbed: ["warn", "⚠"], invalid: ["bad", "✕"], incomplete: ["warn", "…"], broken: ["bad", "✕"], running: ["", "▸"] }[r.state];
  return [h("span", { class: `badge ${kind}` }, `${sign} `, app.t(`state.${r.state}`)), r.reason && h("span", { class: "below" }, said(app.t.report, r.reason))];
}

function result(app: App, r: Run): Child {
  const { t } = app;
  const name = t.report.metric(r.metric ?? "throughput");
  const lines: Child[] = r.results.map((x) => h("span", { class: "line" }, `${x.variant} / ${x.base}: `, word(app, x.verdict), x.verdict === "invalid" ? "" : ` ${change(x.ratio)}`));
  lines.push(...r.figures.map((x) => h("span", { class: "line" }, `${r.figures.length > 1 ? `${x.variant}: ` : ""}${estimate(unitOf(r.metric ?? "throughput"), x.figure)}`)));
  if (r.thresholds_broken > 0) lines.push(h("span", { class: "line badge bad" }, t.plural("runs.thresholds", r.thresholds_broken)));
  return lines.length > 0 ? [(r.results.length > 0 || r.figures.length > 0) && h("span", { class: "hint" }, name), lines] : "";
}

/** A verdict in words, with its mark. */
export function word(app: App, verdict: string): HTMLElement {
  return h("span", { class: `verdict ${verdict}` }, sign(verdict), verdict === "invalid" ? app.t("state.invalid") : app.t.report.maybe(verdict, verdict));
}

function pages(app: App, list: RunList, offset: number, go: (offset: string) => void): Child {
  if (offset === 0 && list.matched <= paged) return null;
  const { t } = app;
  return h("p", { class: "controls" },
    h("button", { type: "button", disabled: offset === 0, click: () => go(String(Math.max(0, offset - paged))) }, t("runs.previous")),
    t("runs.page", { from: Math.min(offset + 1, list.matched), to: Math.min(offset + paged, list.matched) }),
    h("button", { type: "button", disabled: offset + paged >= list.matched, click: () => go(String(offset + paged)) }, t("runs.next")));
}
