import "uplot/dist/uPlot.min.css";
import "../style.css";
import "./ui.css";
import { h } from "../dom";
import { shell, type Page, type Visit } from "../shell";
import { follow } from "../stream";
import { authorization, refused, setToken, takeToken, type Live } from "./api";
import { link, problem, type App } from "./app";
import { compare } from "./compare";
import { experiments } from "./experiments";
import { fleet } from "./fleet";
import { past } from "./history";
import { apply, running } from "./live";
import { run } from "./run";
import { runs } from "./runs";
import { uiTexts, type UITexts } from "./texts";
import { watch } from "./watch";

takeToken();
let live: Live | null = null;
let watchers: ((kind: string) => void)[] = [];

/** Where the address leads to. */
function pageOf(visit: Visit<UITexts>, name: string, below: string[], q: URLSearchParams): Page | Promise<Page> {
  watchers = [];
  const app: App = {
    ...visit,
    get live() { return live; },
    follow: (f) => { if (!visit.signal.aborted) watchers.push(f); },
  };
  switch (name) {
    case "runs":
      return runs(app, q);
    case "run":
      return run(app, below.join("/"));
    case "compare":
      return compare(app, below[0] ?? "", below[1] ?? "");
    case "history":
      return past(app, below.join("/"), q);
    case "live":
      return watch(app);
    case "experiments":
      return experiments(app);
    case "fleet":
      return fleet(app);
  }
  return { title: app.t("unknownPage"), content: link("#/runs", app.t("nav.runs")) };
}

const frame = shell<UITexts>({
  name: "dyno",
  pages: [["runs", (t) => t("nav.runs")], ["live", (t) => t("nav.live")], ["experiments", (t) => t("nav.experiments")], ["fleet", (t) => t("nav.fleet")]],
  texts: uiTexts,
  page: pageOf,
  problem,
  token: (value) => { setToken(value); begin(); },
  mark: (t, page) => page === "live" && running(live) && h("span", { class: "pulse", role: "img", "aria-label": t("nav.running") }),
});

let following = new AbortController();

/** Follows the run under way, whatever page is shown. */
function begin(): void {
  following.abort();
  following = new AbortController();
  let lost = false;
  frame.alarm(null);
  void follow({
    path: "/api/live", headers: authorization,
    message: (m) => {
      const before = running(live);
      live = apply(live, m);
      for (const f of watchers) f(m.type);
      if (before !== running(live)) frame.draw();
    },
    connected: (is) => {
      if (lost !== is) return;
      lost = !is;
      frame.alarm(lost ? () => uiTexts(frame.language())("lost") : null);
    },
    refused: (status, text) => { if (refused(status, text).status === 401) frame.lock(); },
  }, following.signal);
  void frame.show(false);
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) { // the address was opened once more
    takeToken();
    begin();
  } else void frame.show(true);
});
// A page that is left, and shown again later, connects again then.
addEventListener("pagehide", () => following.abort());
addEventListener("pageshow", (event) => { if (event.persisted) begin(); });
begin();
