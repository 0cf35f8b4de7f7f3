import { choice, details, fitted, h, table, type Child } from "../dom";
import { key, percentiles } from "../charts/percentiles";
import { quantileName } from "../format";
import type { Key } from "../i18n";
import { estimateOf, mainClock, orderOf, planned, written, type Context } from "./context";
import { paragraph } from "./say";

const quantiles = ["p50", "p75", "p90", "p95", "p99", "p999", "p9999", "max"];

/** Latency by percentile, one clock at a time, of the variants a reader leaves on. */
export function latency(c: Context): Child[] {
  const { t } = c;
  const curves = c.doc.curves ?? [];
  const clocks = [...new Set(curves.map((x) => x.clock))];
  if (clocks.length === 0) return [];
  const name = (clock: string) => t.clock(clock);
  const host = h("div");
  const redraw = () => {
    const clock = clocks.includes(c.chosen.clock ?? "") ? c.chosen.clock! : clocks.includes(mainClock(c)) ? mainClock(c) : clocks[0]!;
    const shown = curves.filter((x) => x.clock === clock && !c.chosen.hidden.has(x.variant));
    host.replaceChildren(
      shown.length === 0 ? h("p", {}, "–") : fitted((width) => percentiles({
        curves: shown, order: (v) => orderOf(c, v), label: t("latency.label", { clock: name(clock) }), axis: t("latency.percentile"),
        read: (percentile) => t("latency.read", { percentile }), keys: t("latency.keys"),
      }, width)),
      h("p", { class: "hint" }, paragraph(t, t(`latency.${clock}` as Key), t("latency.hint"))),
      details(t("latency.table"), table(t("latency.table"), [{ head: t("col.variant") }, ...quantiles.map((q) => ({ head: quantileName(q) }))],
        (c.doc.run.variants ?? []).map((v) => [v.name, ...quantiles.map((q) => written(c, v.name, `${clock}.${q}`, estimateOf(v, `${clock}.${q}`)))]))));
  };
  redraw();
  const start = clocks.includes(c.chosen.clock ?? "") ? c.chosen.clock! : clocks.includes(mainClock(c)) ? mainClock(c) : clocks[0]!;
  return [
    h("div", { class: "controls" },
      choice(t("clock"), clocks.map((k) => [k, name(k)]), start, (k) => { c.chosen.clock = k; redraw(); }),
      legend(c, redraw)),
    host,
  ];
}

/** The variants with their colours, each of which can be left out. */
export function legend(c: Context, change: () => void): Child {
  return planned(c).length > 1 && h("fieldset", { class: "legend" }, h("legend", {}, c.t("col.variant")), planned(c).map((v, i) => h("label", {},
    h("input", { type: "checkbox", checked: !c.chosen.hidden.has(v.name), change: (e) => {
      if ((e.target as HTMLInputElement).checked) c.chosen.hidden.delete(v.name);
      else c.chosen.hidden.add(v.name);
      change();
    } }), key(i), h("span", {}, v.name))));
}
