// Dialogs that ask whether something is to be done.

import { h, type Child } from "./dom";
import type { Listing } from "./lists";

/** A question whether something is to be done. */
export interface Question {
  title: string;
  /** What the reader has to know in addition to what is shown. */
  about?: Child;
  /** Fields for the reader. Check them again after each input. */
  form?: Child;
  /** The name that the reader enters before it is removed, if something is. */
  removes?: string | undefined;
  /** What would be done. Nothing is yet. Without it, the reader is not shown that first. */
  check?(): Promise<Child>;
  /** Does what was shown, and returns what comes when the dialog is closed. */
  make(): Promise<() => void>;
  /** What is in the way, if it is to be checked once more because of that. */
  again?(error: unknown): Promise<Child>;
}

/** Asks in a dialog. What would be done is shown first where there is a check, and then only what was shown is done. */
export function confirm(app: Listing, q: Question): void {
  const { t } = app;
  let checked = !q.check, busy = false;
  const told = h("div", { "aria-live": "polite" });
  const check = h("button", { type: "submit" }, t("change.check"));
  const make = h("button", { type: q.check ? "button" : "submit", class: q.removes === undefined ? "go" : "go danger" }, t(q.removes === undefined ? "change.make" : "remove"));
  const typed = h("input", { type: "text", autocomplete: "off", spellcheck: "false", input: (e) => { e.stopPropagation(); settle(); } });
  const settle = () => { make.disabled = busy || !checked || (q.removes !== undefined && typed.value.trim() !== q.removes); };
  const unchecked = () => { checked = !q.check; settle(); };
  const show = async (before: Child = null) => {
    told.replaceChildren(h("div", {}, before, await q.check?.()));
    checked = true;
  };
  const wrong = (error: unknown, before: Child = null) => {
    told.replaceChildren(h("div", {}, before, error instanceof Wrong ? h("p", { role: "alert", class: "alarm" }, error.message) : app.problem(error)));
  };
  const run = async (step: () => Promise<void>) => {
    check.disabled = busy = true;
    unchecked();
    let before: Child = null;
    try {
      await step().catch(async (error: unknown) => {
        before = await q.again?.(error);
        if (!before) throw error;
        await show(before);
      });
    } catch (error) {
      wrong(error, before);
    } finally {
      check.disabled = busy = false;
      settle();
    }
  };
  const carryOut = async () => {
    const then = await q.make();
    d.close();
    then();
  };
  if (q.check) make.addEventListener("click", () => void run(carryOut));
  const d: HTMLDialogElement = h("dialog", { "aria-labelledby": "change-title", close: () => d.remove() },
    h("form", { method: "dialog", input: unchecked, submit: (e) => { e.preventDefault(); if (q.check || !make.disabled) void run(q.check ? show : carryOut); } },
      h("h2", { id: "change-title" }, q.title), q.about, q.form, told,
      q.removes !== undefined && h("label", { class: "text" }, h("span", {}, t("remove.type"), " ", h("code", {}, q.removes)), typed),
      h("p", { class: "actions" }, q.form && q.check && check, make, h("button", { type: "button", click: () => d.close() }, t("change.cancel")))));
  app.left(() => d.remove());
  document.getElementById("ui")!.append(d);
  settle();
  d.showModal();
  if (q.check && !q.form) void run(show);
}

/** Something that the reader has entered is wrong. */
export class Wrong extends Error {}
