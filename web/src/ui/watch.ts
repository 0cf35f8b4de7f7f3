import { details, h, select, table, type Child } from "../dom";
import { rates, times, write } from "../format";
import { firstLine, said } from "../report/say";
import { badge, kinds, remedy } from "../report/validity";
import { call, pathOf, type Live, type Second, type TrialEnd } from "./api";
import { link, problem, runPage, type App, type Page } from "./app";
import { clocksOf, curves, running } from "./live";
import { GrowingPlot } from "./plot";

/** The run under way, or the last one: what happens, as it happens. */
export function watch(app: App): Page {
  const host = h("div");
  let view = app.live ? new View(app, app.live) : undefined;
  const show = () => host.replaceChildren(view ? view.element : h("p", {}, app.t("live.none"), " ", link("#/experiments", app.t("live.start"))));
  show();
  app.follow((kind) => {
    const live = app.live;
    if (!live || !view || kind === "state" || kind === "run") {
      view?.destroy();
      view = live ? new View(app, live) : undefined;
      show();
    } else view.update(live, kind);
  });
  app.recoloured(() => view?.repaint());
  app.left(() => view?.destroy());
  return { title: app.t("nav.live"), content: host };
}

const recent = 60;

class View {
  readonly element: HTMLElement;
  private readonly status = h("p", { class: "status" });
  private readonly progress = h("progress", { max: 1 });
  private readonly readings = h("dl", { class: "readings" });
  private readonly actions = h("p", { class: "actions" });
  private readonly clockBox = h("span");
  private readonly plots = h("div");
  private readonly flags = h("div");
  private readonly trials = h("div", { class: "trials" });
  private readonly seconds = h("div", { class: "trials" });
  private readonly log = h("div");
  private readonly more: HTMLDetailsElement;
  private throughput: GrowingPlot | undefined;
  private latency: GrowingPlot | undefined;
  private clock = "";

  constructor(private readonly app: App, private live: Live) {
    const { t } = app;
    const set = Object.entries(live.set ?? {}).map(([n, v]) => `${n}=${v}`);
    this.progress.setAttribute("aria-label", t("nav.live"));
    this.more = h("details", {}, h("summary", {}, t("live.last")), this.seconds);
    this.more.addEventListener("toggle", () => this.latest());
    this.element = h("div", {},
      h("p", { class: "what" }, h("b", {}, live.name), " ", h("code", {}, [live.experiment, live.short && "--short", set.map((s) => `--set ${s}`)].flat().filter(Boolean).join(" ")), " ", t.instant(live.started_at)),
      this.status, this.progress, this.actions, this.log, this.readings, h("div", { class: "controls" }, this.clockBox), this.plots, this.more,
      h("section", {}, h("h2", {}, t("live.flags")), this.flags), h("section", {}, h("h2", {}, t("live.trials")), this.trials));
    this.all();
  }

  update(live: Live, kind: string): void {
    this.live = live;
    if (kind === "second") {
      this.figures();
      this.state();
      return;
    }
    if (kind === "end") {
      const last = live.trials.at(-1)!;
      this.app.say(this.app.t("live.trialEnded", { number: last.number, variant: last.variant, figure: write(rates, last.throughput_per_second) }));
    }
    if (kind === "ended") this.app.say(this.end(live.outcome?.code ?? 0));
    this.all();
  }

  repaint(): void {
    this.throughput?.repaint();
    this.latency?.repaint();
  }

  destroy(): void {
    this.throughput?.destroy();
    this.latency?.destroy();
  }

  private all(): void {
    this.state();
    this.act();
    this.figures();
    this.flagged();
    this.ended();
  }

  private state(): void {
    const { t } = this.app;
    const { trial: b, outcome, seconds, trials } = this.live;
    const of = b?.of ?? 0;
    if (of > 0) this.progress.value = Math.min(1, (b!.number - 1) / of);
    else if (outcome) this.progress.value = 1;
    else if (trials.length === 0) this.progress.removeAttribute("value");
    this.progress.hidden = outcome !== undefined;
    if (outcome) {
      this.status.textContent = this.end(outcome.code);
      return;
    }
    if (this.live.stopping) {
      this.status.textContent = t("live.stopping");
      return;
    }
    if (!b) {
      this.status.textContent = t("live.between");
      return;
    }
    const last = seconds.at(-1);
    const purpose = b.purpose === "pilot" ? t("live.pilot") : b.purpose === "probe" ? t("live.probe", { rate: write(rates, b.rate_per_second) }) : b.purpose === "profile" ? t("live.profile") : "";
    this.status.textContent = [
      t(of > 0 ? "live.trialOf" : "live.trial", { number: b.number, of, variant: b.variant }), b.round > 0 && t("live.round", { round: b.round, rounds: b.rounds }), purpose,
      last?.trial === b.number && !last.latency && t("live.warming"),
    ].filter(Boolean).join(" · ");
  }

  private end(code: number): string {
    const { t } = this.app;
    return code === 0 ? t("live.done") : this.live.elsewhere && code < 0 ? t("live.unfinished") : t("live.ended", { code });
  }

  private act(): void {
    const { t } = this.app;
    const { live } = this;
    const own = h("span", { role: "status" });
    const stop = async (button: HTMLButtonElement) => {
      button.disabled = true;
      try {
        await call("POST", `${pathOf(live.id)}/stop`);
      } catch (error) {
        own.replaceChildren(problem(this.app.t, error));
      }
      button.disabled = false;
    };
    if (running(live) && live.elsewhere) this.actions.replaceChildren(h("span", { class: "hint" }, t("live.elsewhere")));
    else if (running(live)) {
      const button: HTMLButtonElement = h("button", { type: "button", class: "danger", click: () => void stop(button) }, t(live.stopping ? "live.stopNow" : "live.stop"));
      const focused = this.actions.contains(document.activeElement);
      this.actions.replaceChildren(button, own);
      if (focused) button.focus();
    } else this.actions.replaceChildren(h("a", { href: runPage(live.id), class: "action" }, t("live.results")), own);
    const said = live.outcome?.message ?? "";
    this.log.replaceChildren(...(said ? [details(t("live.log"), h("pre", { lang: "en", tabindex: 0 }, said))] : []));
  }

  private clockName(clock: string): string {
    return clock === "delivery" ? this.app.t("live.delivery") : this.app.t.report.clock(clock);
  }

  private figures(): void {
    const { t } = this.app;
    const clocks = clocksOf(this.live.seconds);
    const clock = clocks.includes(this.clock) ? this.clock : clocks[0] ?? "response";
    if (!this.latency || clock !== this.clock) {
      this.clock = clock;
      this.destroy();
      this.throughput = new GrowingPlot(t("live.throughput"), `${t("live.throughput")}, ${t("live.time")}`, rates, [{ name: t("live.throughput"), order: 0 }], false, "live");
      this.latency = new GrowingPlot(t("live.latency", { clock: this.clockName(clock) }), `${t("live.latency", { clock: this.clockName(clock) })}, ${t("live.time")}`, times,
        [{ name: "p50", order: 0 }, { name: "p99", order: 1 }, { name: "max", order: 7, dash: [2, 3] }], true, "live");
      this.plots.replaceChildren(this.throughput.element, this.latency.element);
      this.clockBox.replaceChildren();
    }
    if (clocks.length > 1 && !this.clockBox.firstChild) {
      this.clockBox.replaceChildren(select(t("live.clock"), clocks.map((c) => [c, this.clockName(c)] as [string, string]), clock, (c) => this.choose(c)));
    }
    const c = curves(this.live, clock);
    this.throughput!.set(c.time, c.throughput);
    this.latency.set(c.time, c.p50, c.p99, c.max);
    const last = this.live.seconds.at(-1);
    const of = last?.latency && Object.hasOwn(last.latency, clock) ? last.latency[clock] : undefined;
    const reading = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    this.readings.replaceChildren(reading(t("live.throughput"), write(rates, last?.throughput_per_second)), reading("p50", write(times, of?.p50_seconds)), reading("p99", write(times, of?.p99_seconds)),
      reading("max", write(times, of?.max_seconds)), reading(t("live.failed"), last ? String(last.failed) : "–"));
    this.latest();
  }

  /** Shows another clock. */
  private choose(clock: string): void {
    this.clock = clock;
    this.destroy();
    this.latency = undefined;
    this.figures();
    this.clockBox.querySelector("select")?.focus();
  }

  /** The plots for readers who do not see them; made only when it is open. */
  private latest(): void {
    if (!this.more.open) return;
    const { t } = this.app;
    const row = (s: Second): Child[] => {
      const of = s.latency && Object.hasOwn(s.latency, this.clock) ? s.latency[this.clock] : undefined;
      return [s.trial, write(times, s.trial_seconds), write(rates, s.throughput_per_second), write(times, of?.p50_seconds), write(times, of?.p99_seconds), s.failed];
    };
    this.seconds.replaceChildren(table(t("live.last"), [{ head: t("live.col.trial") }, { head: t("live.col.elapsed") }, { head: t("live.throughput") }, { head: "p50" }, { head: "p99" }, { head: t("live.failed") }],
      this.live.seconds.slice(-recent).reverse().map(row)));
  }

  private flagged(): void {
    const { t } = this.app;
    const r = t.report;
    const list = kinds(this.live.trials.flatMap((x) => (x.flags ?? []).map((f) => ({ ...f, trial: f.trial || x.number, variant: f.variant || x.variant }))));
    this.flags.replaceChildren(list.length === 0 ? h("p", { class: "hint" }, t("live.noFlags")) : table(t("live.flags"), [
      { head: r("flags.severity") }, { head: r("flags.kind"), left: true }, { head: t("live.trials"), left: true }, { head: r("flags.detail"), left: true }, { head: r("flags.remedy"), left: true },
    ], list.map(({ first, trials }) => [
      badge(r, first), r.check(first.kind),
      trials.slice(0, 12).join(" ") + (trials.length > 12 ? " …" : ""), said(r, first.detail), remedy(r, first.kind),
    ])));
  }

  private ended(): void {
    const { t } = this.app;
    const row = (x: TrialEnd): Child[] => [
      `${x.number}`, x.variant, write(rates, x.throughput_per_second), write(times, x.latency.p50_seconds), write(times, x.latency.p99_seconds), x.failed,
      x.error ? h("span", { class: "bad", lang: "en" }, firstLine(x.error)) : (x.flags ?? []).map((f) => t.report.check(f.kind)).join(t.report("answer.comma")),
    ];
    this.trials.replaceChildren(table(t("live.trials"), [
      { head: t("live.col.trial") }, { head: t.report("col.variant"), left: true }, { head: t("live.throughput") }, { head: "p50" }, { head: "p99" }, { head: t("live.failed") }, { head: t("live.flags"), left: true },
    ], this.live.trials.slice(-200).reverse().map(row)), ...((this.live.omitted ?? 0) > 0 ? [h("p", { class: "hint" }, t("live.omitted", { n: this.live.omitted! }))] : []));
  }
}
