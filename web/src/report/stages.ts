import { h, table, type Child } from "../dom";
import { counts, figure, rates, times, write } from "../format";
import { mainClock, planned, type Context } from "./context";

/** What was measured in each stage of the window. */
export function stages(c: Context): Child[] {
  const { t } = c;
  const variants = (c.doc.run.variants ?? []).filter((v) => v.stages?.length);
  if (variants.length === 0) return [];
  const clock = mainClock(c);
  const rows: Child[][] = variants.flatMap((v) => {
    const open = planned(c).find((p) => p.name === v.name)?.loop === "open";
    return (v.stages ?? []).map((s): Child[] => {
      const level = s.planned.from === s.planned.to ? figure(s.planned.to) : t("stages.to", { from: figure(s.planned.from), to: figure(s.planned.to) });
      const all = s.times?.[clock];
      return [
        v.name, t(open ? "stages.rate" : "stages.users", { length: write(times, s.planned.seconds), level }), write(rates, s.throughput_per_second),
        write(times, all?.p50_seconds), write(times, all?.p99_seconds), s.in_flight === undefined ? "" : figure(s.in_flight),
        write(times, s.times?.["generator_lag"]?.p99_seconds),
        s.failed > 0 ? h("span", { class: "badge bad" }, write(counts, s.failed)) : "0",
      ];
    });
  });
  return [table(t("section.stages"), [
    { head: t("col.variant") }, { head: t("stages.stage"), left: true }, { head: t("steps.rate") }, { head: "p50" }, { head: "p99" },
    { head: t("stages.inFlight") }, { head: t("stages.lag") }, { head: t("steps.errors") },
  ], rows), h("p", { class: "hint" }, t("stages.hint"))];
}
