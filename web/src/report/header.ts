import { h, type Child } from "../dom";
import { tick, times } from "../format";
import { switches } from "../settings";
import { brief, commands, facts, sentences, verdicts } from "./answer";
import { isProgram, planned, type Context } from "./context";

/** The question and the answer: what came out, how sure that is, and what helps. */
export function header(c: Context, again: () => void): HTMLElement {
  const { t } = c;
  const { run } = c.doc;
  const { answer } = c.doc;
  return h("header", {},
    h("div", { class: "top" }, h("p", { class: "name" }, "dyno", h("span", {}, run.name)),
      h("div", { class: "switches" }, switches(c.chosen, again))),
    run.question && h("p", { class: "question" }, run.question),
    (run.flags ?? []).some((f) => f.disturbs) && h("p", { class: "verdicts" }, h("a", { href: "#validity", class: "badge warn" }, `⚠ ${t("disturbed")}`)),
    verdicts(c),
    h("h1", { class: answer.says.length > 1 ? "many" : undefined }, sentences(t, answer).map((s) => h("span", { class: "sentence" }, s))),
    brief(c, answer.table),
    facts(c, answer),
    commands(c),
    h("p", { class: "load" }, load(c)));
}

/** How the load was made, where all variants agree on it, and how often. */
function load(c: Context): Child {
  const { t } = c;
  const { plan } = c.doc.run;
  const parts: string[] = [plan.protocol];
  const common = (of: (v: ReturnType<typeof planned>[number]) => string) => {
    const values = new Set(planned(c).map(of));
    const [first] = values;
    if (values.size === 1 && first) parts.push(first);
  };
  if (!isProgram(c)) {
    common((v) => t.maybe(`loop.${v.loop}`, v.loop));
    common((v) => (v.rate_per_second === undefined ? "" : t("load.rate", { rate: v.rate_per_second })));
    common((v) => (v.subscribers ? t.plural("n.subscribers", v.subscribers) : ""));
    common((v) => (v.connections > 0 ? t.plural("n.connections", v.connections) : ""));
    common((v) => (v.window_seconds > 0 ? t("load.window", { time: tick(times, v.window_seconds) }) : ""));
    common((v) => t("load.warmup", { time: tick(times, v.warmup_seconds) }));
  }
  parts.push(t.plural("n.rounds", c.doc.run.rounds), t("load.seed", { seed: plan.seed }));
  if (plan.short) parts.push(t("load.short"));
  return parts.filter(Boolean).join(" · ");
}
