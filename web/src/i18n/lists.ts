// Texts of lists, and of dialogs that ask whether something is to be done.

import type { Language } from "./index";

const en = {
  "none": "There is nothing here.",
  "page.first": "First page",
  "page.next": "Next page",
  "page.last": "This is the last page.",
  "change.check": "Check without changing",
  "change.make": "Make the change",
  "change.cancel": "Cancel",
  "remove": "Remove",
  "remove.type": "To remove it, enter its name:",
};

export type ListKey = keyof typeof en;

const zh: Record<ListKey, string> = {
  "none": "这里没有内容。",
  "page.first": "第一页",
  "page.next": "下一页",
  "page.last": "这是最后一页。",
  "change.check": "检查（不修改）",
  "change.make": "执行修改",
  "change.cancel": "取消",
  "remove": "删除",
  "remove.type": "如要删除，请输入其名称：",
};

export const listTexts: Record<Language, Record<ListKey, string>> = { en, zh };
