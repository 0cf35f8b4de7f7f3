import { h, table, type Child } from "../dom";
import { money, window as windowOf } from "./answer";
import { get, type KeyUsage, type Limit } from "./api";
import { problem, type App, type Page } from "./app";
import type { BotTexts } from "./texts";

export const amount = (l: { resource: string }, v: number) => (l.resource === "money" ? money(v) : v.toLocaleString("en"));

export function windowText(t: BotTexts, l: Limit): string {
  if (l.window_seconds === 0) return t("window.ever");
  const [n, unit] = windowOf(l.window_seconds);
  return t(`window.${unit}`, { n });
}

export function share(t: BotTexts, l: Limit): Child {
  if (l.used === null) return t("usage.unknown");
  const part = l.amount > 0 ? Math.min(1, l.used / l.amount) : 1;
  return h("meter", { min: 0, max: 1, high: 0.8, optimum: 0, value: part, "aria-label": `${t.maybe(`resource.${l.resource}`, l.resource)}: ${Math.round(100 * part)} %` });
}

function limits(t: BotTexts, u: KeyUsage): Child {
  if (u.limits.length === 0) return h("p", {}, t("usage.none"));
  return table(t("usage.limits"), [
    { head: t("usage.resource"), left: true }, { head: t("usage.window"), left: true, whole: true }, { head: t("usage.used") }, { head: t("usage.limit") }, { head: t("usage.left") }, { head: t("usage.share") },
  ], u.limits.map((l) => [
    t.maybe(`resource.${l.resource}`, l.resource), windowText(t, l), l.used === null ? t("usage.unknown") : amount(l, l.used), amount(l, l.amount),
    l.used === null ? t("usage.unknown") : amount(l, Math.max(0, l.amount - l.used)), share(t, l),
  ]));
}

/** Loads into a box, at once and whenever the button is used. */
function loaded<T>(app: App, path: () => string, draw: (v: T) => Child[]): HTMLElement[] {
  const box = h("div", { "aria-busy": true });
  const load = async () => {
    box.setAttribute("aria-busy", "true");
    try {
      const v = await get<T>(path(), app.signal);
      box.replaceChildren(h("div", {}, draw(v)));
    } catch (error) {
      if (app.signal.aborted || app.locked(error)) return;
      box.replaceChildren(problem(app.t, error));
    }
    box.removeAttribute("aria-busy");
  };
  void load();
  return [h("div", { class: "controls" }, h("button", { type: "button", click: () => void load() }, app.t("usage.refresh"))), box];
}

/** What the user's own API key may use, and has used. */
export function usage(app: App): Page {
  const { t } = app;
  return {
    title: t("usage.title"),
    content: loaded<KeyUsage>(app, () => "v1/usage", (u) => [
      h("p", {}, t("usage.key", { key: u.key })),
      h("section", {}, h("h2", {}, t("usage.limits")), limits(t, u)),
      h("section", {}, h("h2", {}, t("usage.today")), u.today && h("dl", {}, (["requests", "tokens", "money"] as const).map((r) => [h("dt", {}, t(`resource.${r}`)), h("dd", {}, amount({ resource: r }, u.today![r]))]))),
    ]),
  };
}
