import { h, table, type Child } from "../dom";
import { times, write } from "../format";
import type { Context } from "./context";

/** The slowest requests, which lead to their traces. */
export function slowest(c: Context): Child[] {
  const { t } = c;
  const list = c.doc.slowest ?? [];
  if (list.length === 0) return [];
  return [table(t("section.slowest"), [
    { head: t("col.variant") }, { head: t("slowest.trial") }, { head: t.clock("response") }, { head: t.clock("service") }, { head: t("slowest.status"), left: true }, { head: t("slowest.trace"), left: true },
  ], list.map((x) => {
    const id = h("code", {}, x.request.trace_id);
    return [
      x.variant, x.trial, write(times, x.request.response_seconds), write(times, x.request.service_seconds), x.request.status ?? "",
      x.url && /^https?:/.test(x.url) ? h("a", { href: x.url, target: "_blank", rel: "noopener noreferrer" }, id) : id,
    ];
  }))];
}
