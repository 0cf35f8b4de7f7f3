import { h, type Child } from "../dom";
import { paged, part } from "../lists";
import type { Page } from "../shell";
import { at, get, type Change } from "./manage";
import type { App } from "./operators";

const perPage = 50;

/** The members that a change has changed, as they are in one of its states. */
function members(of: Change["before"], other: Change["before"]): Child {
  const text = (value: unknown) => JSON.stringify(value) ?? "–";
  const changed = Object.keys({ ...of, ...other }).filter((name) => !["id", "version"].includes(name) && text(of?.[name]) !== text(other?.[name]) && of?.[name] !== undefined);
  return changed.length === 0 ? "–" : changed.map((name) => h("code", { class: "pair" }, `${name}: ${text(of![name])}`));
}

/** Who changed what, newest first. */
export function audit(app: App): Page {
  const { t } = app;
  const title = t("nav.audit");
  const { host, load } = part(app, async () => {
    const { changes } = await get<{ changes: Change[] }>(at(["audit"], { limit: perPage, before: app.query.get("after") ?? "" }), app.signal);
    return paged(app, title, [{ head: t("when") }, { head: t("who"), left: true }, { head: t("what"), left: true }, { head: t("before"), left: true }, { head: t("after"), left: true }],
      changes.map((c) => [t.instant(c.at), c.by, [t.maybe(`act.${c.action}`, c.action), " ", t.maybe(c.kind.replace(/s$/, ""), c.kind), " ", h("code", {}, c.id)], members(c.before, c.after), members(c.after, c.before)]),
      changes.length < perPage ? undefined : String(changes.at(-1)!.version));
  });
  void load();
  return { title, content: host };
}
