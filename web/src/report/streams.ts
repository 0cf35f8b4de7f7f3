import { h, table, type Child } from "../dom";
import type { SlowStreams, Streams, Variant } from "../document";
import { unknown } from "../format";
import { estimateOf, type Context } from "./context";
import { bars } from "./figures";

const width = 96;

/** What subscribers saw: times, what became of events, and their subscriptions. */
export function streams(c: Context): Child[] {
  const { t } = c;
  const variants = (c.doc.run.variants ?? []).filter((v) => v.streams);
  if (variants.length === 0) return [];
  const times = ["delivery", "first_event", "event_gap", "opening"].flatMap((clock) => [`${clock}.p50`, `${clock}.p99`])
    .filter((metric) => variants.some((v) => estimateOf(v, metric)?.estimate !== undefined))
    .map((metric) => ({ metric, head: t.metric(metric) }));
  const parts: Child[] = [];
  if (times.length > 0) parts.push(h("h3", {}, t("streams.times")), bars(c, t("streams.times"), variants, times, width), h("p", { class: "hint" }, t("streams.timesHint")));
  const ofStreams = (v: Variant) => v.streams;
  parts.push(h("h3", {}, t("streams.events")), counted<Streams>(c, t("streams.events"), variants, ofStreams, [
    { head: t("streams.delivered"), of: (s) => s.all_delivered, always: true },
    { head: t("streams.lost"), of: (s) => s.lost, always: true, fault: true },
    { head: t("streams.repeated"), of: (s) => s.repeated, always: true, fault: true },
    { head: t("streams.disordered"), of: (s) => s.disordered, always: true, fault: true },
    { head: t("streams.announced"), of: (s) => s.announced },
    { head: t("streams.gaps"), of: (s) => s.gaps },
    { head: t("streams.uncertain"), of: (s) => s.uncertain },
    { head: t("streams.pending"), of: (s) => s.pending },
    { head: t("streams.unnumbered"), of: (s) => s.unstamped + s.untracked },
  ]), h("p", { class: "hint" }, t("streams.eventsHint")));
  parts.push(h("h3", {}, t("streams.subscriptions")), counted<Streams>(c, t("streams.subscriptions"), variants, ofStreams, [
    { head: t("streams.requested"), of: (s) => s.requested, always: true },
    { head: t("streams.peak"), of: (s) => s.peak, always: true },
    { head: t("streams.opened"), of: (s) => s.opened, always: true },
    { head: t("streams.failed"), of: (s) => s.failed },
    { head: t("streams.reconnects"), of: (s) => s.reconnects },
    { head: t("streams.ended"), of: (s) => s.ended },
    { head: t("streams.broken"), of: (s) => s.broken, fault: true },
    { head: t("streams.closed"), of: (s) => s.closed },
  ]));
  if (variants.some((v) => v.streams?.slow)) {
    parts.push(h("h3", {}, t("streams.slow")), counted<SlowStreams>(c, t("streams.slow"), variants, (v) => v.streams?.slow, [
      { head: t("streams.opened"), of: (s) => s.opened, always: true },
      { head: t("streams.read"), of: (s) => s.delivered, always: true },
      { head: t("streams.missing"), of: (s) => s.missing, always: true, fault: true },
      { head: t("streams.announced"), of: (s) => s.announced },
      { head: t("streams.gaps"), of: (s) => s.gaps },
      { head: t("streams.ended"), of: (s) => s.ended },
    ]), h("p", { class: "hint" }, t("streams.slowHint")));
  }
  return parts;
}

interface Count<S> {
  head: string;
  of: (s: S) => number;
  always?: boolean; // shown though it is zero everywhere
  fault?: boolean; // should be zero
}

/** Counts by variant. What is zero everywhere is no column, unless zero is the news. */
function counted<S>(c: Context, label: string, variants: Variant[], of: (v: Variant) => S | undefined, columns: Count<S>[]): HTMLElement {
  const values = (x: Count<S>) => variants.map((v) => { const s = of(v); return s && x.of(s); });
  const shown = columns.filter((x) => x.always || values(x).some((n) => n));
  return table(label, [{ head: c.t("col.variant") }, ...shown.map(({ head }) => ({ head }))], variants.map((v) => {
    const s = of(v);
    return [v.name, ...shown.map((x) => {
      if (!s) return unknown;
      const text = x.of(s).toLocaleString("en");
      return x.fault && x.of(s) > 0 ? h("span", { class: "badge bad" }, text) : text;
    })];
  }));
}
