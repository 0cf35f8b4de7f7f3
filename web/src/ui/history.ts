import { h, select } from "../dom";
import { histories, type Past } from "../report/history";
import { call } from "./api";
import { link, runPage, type App, type Page } from "./app";

const metrics = ["", "throughput", "service.p50", "service.p99", "response.p50", "response.p99", "target.cpu_per_request", "capacity"];

const shown = (app: App) => ({ run: (dir: string) => link(runPage(dir), dir), instant: (text: string) => app.t.instant(text) });

/** The figures of an experiment's runs, and where they changed for good. */
export async function past(app: App, name: string, query: URLSearchParams): Promise<Page> {
  const { t } = app;
  if (!name) return abreast(app, query.getAll("run"));
  const metric = query.get("metric") ?? "";
  const list = await call<Past>("GET", `/api/history?experiment=${encodeURIComponent(name)}${metric ? `&metric=${encodeURIComponent(metric)}` : ""}`, undefined, app.signal);
  const names = [...new Set([...metrics, metric])].map((m) => [m, m ? t.report.metric(m) : t("history.own")] as [string, string]);
  const unreadable = list.unreadable?.length ?? 0;
  return { title: t("history.title", { name }), content: [
    h("div", { class: "controls" }, select(t("history.metric"), names, metric, (m) => app.go(`#/history/${encodeURIComponent(name)}${m ? `?metric=${encodeURIComponent(m)}` : ""}`))),
    histories(t.report, list.experiments, shown(app), false),
    unreadable > 0 && h("p", { class: "hint" }, t.plural("history.unreadable", unreadable)),
  ] };
}

/** Several runs side by side. */
async function abreast(app: App, runs: string[]): Promise<Page> {
  const { t } = app;
  const query = new URLSearchParams([...runs.map((r) => ["run", r]), ...metrics.filter(Boolean).map((m) => ["metric", m])]);
  const list = await call<Past>("GET", `/api/history?${query}`, undefined, app.signal);
  return { title: t("compare.several"), content: histories(t.report, list.experiments, shown(app), true) };
}
