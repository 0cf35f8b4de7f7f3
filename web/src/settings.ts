// Language and colours, which the reader of any page chooses.

import { select } from "./dom";
import { languages, preferred, type Language } from "./i18n";
import { frameTexts, type FrameKey } from "./i18n/frame";
import { pageTexts, type PageTexts } from "./i18n/pages";

type Theme = "auto" | "light" | "dark";

export interface Settings {
  language: Language;
  theme: Theme;
}

const kept = "dyno.settings";

/** What the browser is set to. */
export function usual(): Settings {
  return { language: preferred(navigator.languages), theme: "auto" };
}

/** What was chosen before, on any page of this address. */
export function settings(): Settings {
  const found = usual();
  try {
    const { language, theme } = JSON.parse(localStorage.getItem(kept) ?? "{}") as Partial<Settings>;
    if (languages.some(([l]) => l === language)) found.language = language!;
    if (theme === "light" || theme === "dark") found.theme = theme;
  } catch {
    // A browser that keeps nothing, or somebody else's text.
  }
  return found;
}

/** Keeps the settings for the next page. */
export function keep(chosen: Settings): void {
  try {
    localStorage.setItem(kept, JSON.stringify(chosen));
  } catch {
    // It holds until the page is closed.
  }
}

/** Gives the page the reader's language and colours. */
export function dress(chosen: Settings): void {
  document.documentElement.lang = chosen.language === "zh" ? "zh-CN" : "en";
  if (chosen.theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen.theme;
}

/** The texts around pages. */
export function frameWords(language: Language): PageTexts<FrameKey> {
  return pageTexts(frameTexts, language);
}

/** What chooses language and colours. The choice is in chosen when changed is called, with the place of the switch. */
export function switches(chosen: Settings, changed: (control: number) => void): HTMLElement[] {
  const t = frameWords(chosen.language);
  return [
    select(t("language"), languages, chosen.language, (language) => { chosen.language = language; changed(0); }),
    select<Theme>(t("theme"), [["auto", t("theme.auto")], ["light", t("theme.light")], ["dark", t("theme.dark")]], chosen.theme, (theme) => { chosen.theme = theme; changed(1); }),
  ];
}
