import { h, table, type Child } from "../dom";
import { delta, shares, times, unknown, write } from "../format";
import type { Context } from "./context";

/** What each agent that carried the load did, and how well its clock and its beginning are known. */
export function agents(c: Context): Child[] {
  const { t } = c;
  const list = c.doc.agents ?? [];
  if (list.length === 0) return [];
  return [h("p", { class: "hint" }, t("agents.hint")), table(t("section.agents"), [
    { head: t("agents.name") }, { head: t("agents.share") }, { head: t("agents.cpu") }, { head: t("agents.clock") }, { head: t("agents.began") }, { head: t("flags"), left: true },
  ], list.map((a) => {
    const low = a.least_cpu_seconds_per_request, high = a.most_cpu_seconds_per_request;
    const within = ` ± ${write(times, a.clock_error_seconds)}`;
    return [
      [a.name, h("small", { class: "below" }, a.address)], write(shares, a.share),
      low === undefined || high === undefined ? unknown : low === high ? write(times, low) : `${write(times, low)} … ${write(times, high)}`,
      delta(times, { estimate: a.clock_offset_seconds }) + within, delta(times, { estimate: a.start_deviation_seconds }) + within,
      (a.flags ?? []).map((kind) => t.check(kind)).join(t("answer.comma")),
    ];
  }))];
}
