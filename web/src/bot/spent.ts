import { h, table, type Child } from "../dom";
import { controls, part, remember } from "../lists";
import type { Page } from "../shell";
import { at, get, type Group } from "./manage";
import type { App } from "./operators";
import { amount } from "./usage";

const dimensions = ["key", "team", "user", "model", "day"] as const;
const dayLength = 86_400_000;
const dayOf = (milliseconds: number) => new Date(milliseconds).toISOString().slice(0, 10);

/** What was used in a period, in groups. */
export function spent(app: App): Page {
  const { t } = app;
  const title = t("nav.usage");
  const today = dayOf(Date.now());
  const by = () => (app.query.get("group") ?? "key").split(",").filter((d) => d);
  const day = (name: "from" | "to") => app.query.get(name) ?? today;
  const { host, load } = part(app, async () => {
    const group = dimensions.filter((d) => by().includes(d));
    const end = Date.parse(day("to")) + dayLength; // the last day is part of the period
    const { groups, truncated } = await get<{ groups: Group[]; truncated: boolean }>(at(["usage"], { group: group.join(), from: day("from"), to: Number.isNaN(end) ? day("to") : dayOf(end) }), app.signal);
    const figures = (g: Omit<Group, (typeof dimensions)[number]>): Child[] => [...[g.requests, g.prompt_tokens, g.completion_tokens].map((n) => n.toLocaleString("en")), amount({ resource: "money" }, g.money)];
    const sum = groups.reduce((s, g) => ({ requests: s.requests + g.requests, prompt_tokens: s.prompt_tokens + g.prompt_tokens, completion_tokens: s.completion_tokens + g.completion_tokens, money: s.money + g.money }), { requests: 0, prompt_tokens: 0, completion_tokens: 0, money: 0 });
    if (groups.length === 0) return h("p", {}, t("none"));
    const heads = group.length > 0 ? group.map((d) => t(d)) : [""];
    return [
      truncated && h("p", { class: "alarm", role: "status" }, t("usage.truncated", { n: groups.length.toLocaleString("en") })),
      table(title, [...heads.map((head) => ({ head, left: true, whole: true })), { head: t("resource.requests") }, { head: t("usage.prompt") }, { head: t("usage.completion") }, { head: t("resource.money") }],
        [{ title: [t("usage.all"), ...heads.slice(1).map(() => ""), ...figures(sum)] }, ...(group.length === 0 ? [] : groups.map((g) => [...group.map((d) => g[d] || "–"), ...figures(g)]))]),
    ];
  });
  const field = (name: "from" | "to") => {
    const box = h("input", { type: "date", value: day(name), change: () => { remember(app, name, box.value); void load(); } });
    return h("label", { class: "select" }, h("span", {}, t(`usage.${name}`)), box);
  };
  const group = (d: (typeof dimensions)[number]) => {
    const box = h("input", { type: "checkbox", checked: by().includes(d), change: () => { remember(app, "group", dimensions.filter((o) => (o === d ? box.checked : by().includes(o))).join() || ","); void load(); } });
    return h("label", { class: "check" }, box, t(d));
  };
  void load();
  return { title, content: [controls(h("fieldset", { class: "picks" }, h("legend", {}, t("usage.by")), dimensions.map(group)), field("from"), field("to")), h("p", { class: "hint" }, t("usage.days")), host] };
}
