// Texts of the frame around pages that are served.

import type { Language } from "./index";

const en = {
  "nav": "Pages",
  "nav.skip": "Skip to the page",
  "language": "Language",
  "theme": "Colours",
  "theme.auto": "as the system",
  "theme.light": "light",
  "theme.dark": "dark",
  "token.label": "Token",
  "token.use": "Use it",
};

export type FrameKey = keyof typeof en;

const zh: Record<FrameKey, string> = {
  "nav": "页面",
  "nav.skip": "跳到正文",
  "language": "语言",
  "theme": "配色",
  "theme.auto": "跟随系统",
  "theme.light": "浅色",
  "theme.dark": "深色",
  "token.label": "令牌",
  "token.use": "使用",
};

export const frameTexts: Record<Language, Record<FrameKey, string>> = { en, zh };
