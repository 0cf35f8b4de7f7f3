import { h, table, type Child } from "../dom";
import { unknown } from "../format";
import { call, type Agent, type Fleet, type Task } from "./api";
import { problem, type App, type Page } from "./app";

const period = 2000; // between questions, in milliseconds

/** The tasks and the agents that a control plane knows, as they change. */
export async function fleet(app: App): Promise<Page> {
  const { t } = app;
  const title = t("nav.fleet");
  const ask = () => call<Fleet>("GET", "/api/fleet", undefined, app.signal);
  let known = await ask();
  if (!known.named) return { title, content: h("p", {}, t("fleet.notNamed")) };
  const box = h("div"), wrong = h("div");
  const draw = () => box.replaceChildren(tasks(app, known.tasks ?? []), agents(app, known.agents ?? []));
  draw();
  const look = async () => {
    try {
      const next = await ask();
      wrong.replaceChildren();
      if (JSON.stringify(next) === JSON.stringify(known)) return; // a reader may be selecting something
      known = next;
      draw();
    } catch (error) {
      if (!app.signal.aborted) wrong.replaceChildren(problem(t, error));
    }
  };
  const timer = setInterval(() => { if (!document.hidden) void look(); }, period);
  app.left(() => clearInterval(timer));
  return { title, content: [wrong, box] };
}

/** Running tasks first, then those that wait in their order, then those that have ended, the latest first. */
export function inOrder(list: Task[]): Task[] {
  const rank = (x: Task) => (x.state === "running" ? 0 : x.state === "queued" ? 1 : 2);
  const ended = (x: Task) => Date.parse(x.runs?.at(-1)?.ended_at ?? "") || 0;
  return [...list].sort((a, b) => rank(a) - rank(b) || (rank(a) === 2 ? ended(b) - ended(a) : 0));
}

export function length(seconds: number | undefined): string {
  if (!seconds) return unknown;
  return seconds < 120 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}

function tasks(app: App, list: Task[]): HTMLElement {
  const { t } = app;
  const kinds = { queued: "", running: "good", done: "good", failed: "bad", cancelled: "warn", broken: "bad" };
  const row = (x: Task): Child[] => {
    const last = x.runs?.at(-1);
    const took = last?.ended_at ? (Date.parse(last.ended_at) - Date.parse(last.began_at)) / 1000 : undefined;
    return [
      [h("b", {}, x.name), h("span", { class: "below" }, x.id)],
      h("span", { class: `badge ${kinds[x.state]}` }, t(`task.${x.state}`)),
      x.priority, x.state === "queued" && Date.parse(x.due_at ?? "") > Date.now() ? t.instant(x.due_at) : unknown,
      length(x.predicted_seconds), length(took), last?.ended_at ? last.exit_code : unknown, last?.worker ?? unknown,
      [last?.result && h("code", {}, last.result), last?.message && h("span", { class: "below", lang: "en" }, last.message)],
    ];
  };
  return h("section", {}, h("h2", {}, t("fleet.queue")), list.length === 0 ? h("p", { class: "hint" }, t("fleet.noTasks")) : table(t("fleet.queue"), [
    { head: t("fleet.task") }, { head: t("fleet.state"), left: true }, { head: t("fleet.priority") }, { head: t("fleet.due") }, { head: t("fleet.predicted") },
    { head: t("fleet.took") }, { head: t("fleet.code") }, { head: t("fleet.worker"), left: true }, { head: t("fleet.result"), left: true },
  ], inOrder(list).map(row)));
}

function agents(app: App, list: Agent[]): HTMLElement {
  const { t } = app;
  return h("section", {}, h("h2", {}, t("fleet.agents")), list.length === 0 ? h("p", { class: "hint" }, t("fleet.noAgents")) : table(t("fleet.agents"), [
    { head: t("fleet.agent") }, { head: t("fleet.state"), left: true }, { head: t("fleet.labels"), left: true }, { head: t("fleet.cpus") }, { head: t("fleet.address"), left: true }, { head: t("fleet.version"), left: true },
  ], list.map((x) => [
    h("b", {}, x.name), h("span", { class: `badge ${x.state === "ready" ? "good" : "warn"}` }, t(`agent.${x.state}`)),
    Object.entries(x.labels ?? {}).sort().map(([n, v]) => `${n}=${v}`).join(", "), x.cpus, x.address, x.version,
  ])));
}
