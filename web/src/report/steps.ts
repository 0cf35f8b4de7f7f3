import { h, table, type Child } from "../dom";
import { stepMetric } from "../format";
import { estimateOf, mainClock, written, type Context } from "./context";

/** What became of the steps of scenarios: counts, times by the clock that the loop can know, errors.
 * What has an interval and a state is written as the figures of all requests are. */
export function steps(c: Context): Child[] {
  const { t } = c;
  const variants = (c.doc.run.variants ?? []).filter((v) => v.steps?.length);
  if (variants.length === 0) return [];
  const response = mainClock(c) === "response";
  const rows: Child[][] = variants.flatMap((v) => (v.steps ?? []).map((s): Child[] => {
    const kinds = Object.entries(s.by_kind ?? {}).sort(([, a], [, b]) => b - a).map(([kind, n]) => `${kind} ${n.toLocaleString("en")}`);
    if (s.dropped) kinds.push(t("steps.dropped", { n: s.dropped.toLocaleString("en") }));
    const clock = response ? "response" : "service";
    const figure = (metric: string) => {
      const name = stepMetric(metric, s.name);
      return written(c, v.name, name, estimateOf(v, name));
    };
    return [
      v.name, s.name, s.ok.toLocaleString("en"), figure("throughput"),
      figure(`${clock}.p50`), figure(`${clock}.p99`), figure(`${clock}.max`),
      kinds.length > 0 ? h("span", { class: "badge bad" }, kinds.join(", ")) : "0",
    ];
  }));
  const parts: Child[] = [table(t("section.steps"), [
    { head: t("col.variant") }, { head: t("steps.step"), left: true }, { head: t("steps.ok") }, { head: t("steps.rate") },
    { head: "p50" }, { head: "p99" }, { head: "max" }, { head: t("steps.errors"), left: true },
  ], rows)];
  for (const v of variants) {
    const u = v.users;
    if (!u) continue;
    parts.push(h("p", { class: "hint" }, `${v.name}: ${t("steps.users", { n: u.started.toLocaleString("en"), iterations: u.iterations_in_window.toLocaleString("en") })}`,
      u.failed_logins ? ` ${t("steps.logins", { n: u.failed_logins.toLocaleString("en"), users: (u.logged_out ?? 0).toLocaleString("en") })}` : "",
      ...(v.steps ?? []).map((s) => s.skipped ? ` ${t("steps.skipped", { step: s.name, n: s.skipped.toLocaleString("en") })}` : ""),
      ...(u.misses ?? []).map((m) => ` ${t("steps.miss", { variable: m.variable, step: m.step, n: m.count.toLocaleString("en") })}`)));
  }
  return parts;
}
