import { h, type Child } from "../dom";
import { confirm, Wrong } from "../dialog";
import type { App } from "./app";
import { ask, Problem, type Answer, type Content, type Doc, type Instance, type Kind, type Note, type Request } from "./api";
import { diff, near } from "./diff";

/** What can be changed here. */
export type Thing = Doc | Instance;

/** A thing as lines: what is not content first. A secret's content is not here. */
export function textOf(kind: Kind | "instance", thing: Thing | undefined): string {
  if (!thing) return "";
  if (kind === "instance") {
    const { id, address, port, zone, weight, metadata, status, ttl_seconds, checks, deregister_after_seconds, maintenance } = thing as Instance;
    return JSON.stringify({ id, address, port, zone, weight, metadata, status, ttl_seconds, checks, deregister_after_seconds, maintenance }, null, 2);
  }
  const { labels, rules, content_type, secret, release } = thing as Doc;
  if (kind === "policy") return JSON.stringify({ labels, rules, release: release && { labels: release.labels, percent: release.percent, rules: release.rules } }, null, 2);
  const fields = { labels, content_type, secret, release: release && { labels: release.labels, percent: release.percent } };
  const head = Object.values(fields).some((v) => v !== undefined) ? `${JSON.stringify(fields, null, 2)}\n\n` : "";
  return `${head}${contentOf(thing as Doc)}${release ? `\n\n--- release ---\n${contentOf(release)}` : ""}`;
}

/** A content as the page shows it: bytes that are no text stay in base64. */
export const contentOf = (c: Content): string => c.content_base64 ?? c.content ?? "";

const mostLines = 2000;

/** What differs between two texts. */
export function compared(app: App, label: string, before: string, after: string, hint?: string): Child {
  const { t } = app;
  const lines = near(diff(before, after));
  const count = (sign: string) => lines.filter((l) => typeof l !== "number" && l.sign === sign).length;
  return [
    h("p", { class: "hint" }, t("diff.count", { added: count("+"), removed: count("-") }), hint && ` · ${hint}`),
    lines.some((l) => typeof l !== "number" && l.sign !== " ") && h("div", { class: "diff", tabindex: 0, role: "region", "aria-label": label },
      lines.slice(0, mostLines).map((l) => typeof l === "number"
        ? h("span", { class: "gap" }, t.plural("diff.same", l))
        : h(l.sign === "+" ? "ins" : l.sign === "-" ? "del" : "span", {}, `${l.sign} ${l.text}`))),
    lines.length > mostLines && h("p", { class: "hint" }, t("diff.more", { n: lines.length - mostLines })),
  ];
}

/** What differs between two things of a kind. */
export function difference(app: App, label: string, kind: Kind | "instance", before: Thing | undefined, after: Thing | undefined): Child {
  const hidden = [before, after].some((thing) => (thing as Doc | undefined)?.secret);
  return compared(app, label, textOf(kind, before), textOf(kind, after), hidden ? app.t("diff.secret") : undefined);
}

export interface Change<T extends Thing> {
  title: string;
  kind: Kind | "instance";
  about?: Child;
  /** Of what the change is made; undefined of nothing. */
  base: Answer<T> | undefined;
  form?: Child;
  /** The name of what the change removes, if it does. */
  removes?: string;
  /** The request, or what is wrong with the fields. Its path has no query but the namespace. */
  request(): Request;
  /** Where the resource is, to see what others have made of it. */
  path(): string;
  /** What it has become; nothing if it was removed. */
  done(thing: T): void;
  /** Shows faults next to their fields, and what data planes cannot do of it. */
  mark?(notes: Note[]): void;
}

/** Asks whether a change is to be made: it is checked first, without being made, and what
 * it would change is shown. It is made only of what was shown: if somebody else was
 * quicker, what they changed is shown, and the change is checked again. */
export function propose<T extends Thing>(app: App, c: Change<T>): void {
  const { t } = app;
  const removes = c.removes !== undefined;
  let base = c.base;
  const attempt = async (dry: boolean) => {
    const r = c.request();
    try {
      const answer = await ask<T>({ ...r, path: dry ? `${r.path}&dry_run=true` : r.path, of: base?.tag ?? "" }, app.signal);
      c.mark?.(answer.limitations);
      return answer;
    } catch (error) {
      c.mark?.(error instanceof Problem ? error.faults : []);
      throw error;
    }
  };
  confirm(app, {
    title: c.title, about: c.about, form: c.form, removes: c.removes,
    check: async () => {
      const { value: thing, limitations } = await attempt(true);
      const label = removes ? t("remove.would") : t("change.would", { version: thing.version });
      return [
        h("h3", {}, label), difference(app, label, c.kind, base?.value, removes ? undefined : thing),
        limitations.length > 0 && [h("h3", {}, t("limitations")), h("ul", { class: "faults" }, limitations.map((n) => h("li", {}, h("code", {}, n.pointer), " ", noteOf(n))))],
      ];
    },
    make: async () => {
      const { value } = await attempt(false);
      return () => c.done(value);
    },
    again: async (error) => {
      if (!(error instanceof Problem && (error.status === 412 || error.status === 409))) return null;
      const mine = base;
      let theirs: Answer<T> | undefined;
      try {
        theirs = await ask<T>({ method: "GET", path: c.path() }, app.signal);
      } catch (e) {
        if (!(e instanceof Problem && e.status === 404)) throw e;
        if (removes) throw new Wrong(t("removed"));
      }
      base = theirs;
      const say = theirs ? t(removes ? "conflict.remove" : "conflict", { version: theirs.value.version, who: theirs.value.changed_by, time: t.instant(theirs.value.changed_at) }) : t("conflict.removed");
      return [h("p", { role: "alert", class: "alarm" }, say), h("h3", {}, t("conflict.theirs")), difference(app, t("conflict.theirs"), c.kind, mine?.value, theirs?.value)];
    },
  });
}

/** What is said of a place, as a reader needs it. */
export function noteOf(note: Note): HTMLElement {
  return h("span", { class: `note ${note.by ? "hint" : "bad"}` }, note.by && [h("span", { class: "badge warn" }, note.by), " "], h("span", { lang: "en" }, note.detail));
}

export function parsed(app: App, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Wrong(app.t("json.invalid"));
  }
}
