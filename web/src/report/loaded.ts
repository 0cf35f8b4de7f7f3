import { h, table, type Child } from "../dom";
import type { Context } from "./context";

/** What of the target was really loaded: its addresses, and what it allowed, where that differs from what was asked for. */
export function loaded(c: Context): Child[] {
  const { t } = c;
  const parts: Child[] = [];
  const count = (n: number) => n.toLocaleString("en");
  const rows: Child[][] = [];
  for (const v of c.doc.run.variants ?? []) {
    const l = v.loaded;
    if (!l) continue;
    const asked = l.streams_requested ?? 1;
    if (l.streams_allowed && l.streams_allowed < asked) {
      parts.push(h("p", {}, t("loaded.streams", { variant: v.name, n: count(l.streams_allowed), asked: count(asked) })));
    }
    if ((l.addresses ?? []).length < 2) continue;
    for (const a of l.addresses ?? []) {
      rows.push([v.name, a.address, count(a.connections_opened), count(a.connections_failed), count(a.requests), count(a.requests_failed), a.unreachable ?? ""]);
    }
  }
  if (rows.length > 0) {
    parts.push(table(t("section.loaded"), [
      { head: t("col.variant") }, { head: t("loaded.address"), left: true }, { head: t("loaded.connections") }, { head: t("loaded.unopened") },
      { head: t("loaded.requests") }, { head: t("loaded.failed") }, { head: t("loaded.unreachable"), left: true },
    ], rows));
  }
  return parts;
}
