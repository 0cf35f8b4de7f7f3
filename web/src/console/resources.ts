import { h, table, type Child } from "../dom";
import type { Page } from "../shell";
import { controls, paged, part, search } from "../lists";
import { liveList, namespaces, page, wanted, type App } from "./app";
import { ask, at, folders, get, type Answer, type Content, type Doc, type Kind, type List } from "./api";
import { contentOf, difference, parsed, propose, textOf, type Change } from "./change";
import { editor, type Editor } from "./form";
import { resolve, type Fields, type Schemas } from "./schema";

const perPage = 50;

/** The schemas of the API, which forms of policies are made from; undefined for configurations, which have none. */
const schemasFor = async (app: App, kind: Kind) => (kind === "policy" ? (await get<{ components: { schemas: Schemas } }>("/v1/openapi.json", app.signal)).components.schemas : undefined);

/** Edits the fields of a document that a schema of the API describes. */
function editorOf(app: App, schemas: Schemas, name: string, doc: object, label: string): Editor {
  const own = JSON.parse(JSON.stringify(doc)) as Fields;
  const whole = resolve(schemas, schemas[name] ?? {});
  const shown = Object.entries(whole.properties ?? {}).filter(([field]) => Object.hasOwn(doc, field));
  return editor(app, schemas, { ...whole, properties: Object.fromEntries(shown) }, own, label);
}

/** The policies or configurations of a namespace. */
export async function resources(app: App, kind: Kind): Promise<Page> {
  const { t } = app;
  const title = t(kind === "config" ? "nav.configs" : "nav.policies");
  let since: string | undefined;
  const state = h("div");
  const schemas = await schemasFor(app, kind);
  const { host, load } = part(app, async () => {
    const list = await get<List<Doc>>(at([folders[kind]], { ...wanted(app), limit: perPage }), app.signal);
    if (since === undefined) state.append(liveList(app, { kind, since: since = list.watch }, load));
    return paged(app, title, [{ head: t("name") }, { head: t("version") }, { head: t("changed"), left: true, whole: true }, { head: t("who"), left: true }, { head: t("labels"), left: true }, { head: t(kind === "config" ? "state" : "rules"), left: kind === "config" }, ...(kind === "policy" ? [{ head: t("state"), left: true }] : [])],
      list.items.map((d) => [h("a", { href: page(app, [kind, d.name]) }, d.name), d.version, t.instant(d.changed_at), d.changed_by, pairs(d.labels), ...(kind === "config" ? [] : [d.rules!.length]), marks(app, d)]), list.next);
  });
  const bar = controls(await namespaces(app), search(app, t("search.name"), load),
    h("button", { type: "button", click: () => edit(app, kind, schemas, undefined, (d) => app.go(page(app, [kind, d.name]))) }, t(`new.${kind}`)));
  void load();
  return { title, content: [bar, state, host] };
}

const pairs = (labels: Record<string, string> | undefined) => Object.entries(labels ?? {}).map(([name, value]) => h("code", { class: "pair" }, `${name}=${value}`));

function marks(app: App, d: Doc): Child {
  const { t } = app;
  return [d.secret && h("span", { class: "badge warn" }, t("secret")), " ", d.release && h("span", { class: "badge" }, t("release"))];
}

/** One resource, with its history. */
export function resource(app: App, kind: Kind, name: string): Page {
  const { t } = app;
  const { namespace } = app;
  const one = at([folders[kind], name], { namespace });
  let since: string | undefined;
  const state = h("div");
  const chosen: Chosen = {};
  let schemas: Schemas | undefined;
  const { host, load } = part(app, async () => {
    schemas ??= await schemasFor(app, kind);
    const current = await ask<Doc>({ method: "GET", path: one }, app.signal);
    const past = await get<List<Doc>>(at([folders[kind], name, "history"], { namespace }), app.signal);
    if (since === undefined) state.append(liveList(app, { kind, name, since: since = past.watch }, load));
    const d = current.value;
    const changed = () => void load();
    return [
      h("dl", {}, h("dt", {}, t("version")), h("dd", {}, d.version), h("dt", {}, t("changed")), h("dd", {}, t.instant(d.changed_at), " · ", d.changed_by),
        d.content_type && [h("dt", {}, t("type")), h("dd", {}, d.content_type)], d.labels && [h("dt", {}, t("labels")), h("dd", {}, pairs(d.labels))]),
      h("p", { class: "actions" }, h("button", { type: "button", click: () => edit(app, kind, schemas, current, changed) }, t("edit")),
        !d.release && h("button", { type: "button", click: () => gray(app, kind, schemas, one, current, changed) }, t("release.begin")),
        h("button", { type: "button", class: "danger", click: () => propose(app, {
          title: t("remove.of", { name }), kind, base: current, removes: name, about: h("p", { class: "hint" }, t("remove.history")), path: () => one,
          request: () => ({ method: "DELETE", path: one }), done: () => app.go(page(app, [folders[kind]])),
        }) }, t("remove")),
        h("a", { href: page(app, ["rollout", kind, name]) }, t("rollout.of", { name }))),
      d.secret ? h("p", { class: "hint" }, t("secret.hidden")) : h("pre", { tabindex: 0, "aria-label": t("content") }, kind === "config" ? contentOf(d) : textOf(kind, { ...d, release: undefined })),
      release(app, kind, schemas, one, current, changed),
      h("section", {}, h("h2", {}, t("history")), versions(app, kind, past.items, chosen, (version) => propose(app, {
        title: t("rollback.to", { version }), kind, base: current, path: () => one, done: changed,
        request: () => ({ method: "POST", path: at([folders[kind], name, "rollback"], { namespace }), body: { version } }),
      }))),
    ];
  });
  void load();
  return { title: name, content: [state, host] };
}

/** A gray release: who has it, what it changes, and how it ends. */
function release(app: App, kind: Kind, schemas: Schemas | undefined, one: string, current: Answer<Doc>, changed: () => void): Child {
  const { t } = app;
  const { release: r, namespace, name, version, changed_at, changed_by } = current.value;
  if (!r) return null;
  const bare: Doc = { namespace, name, version, changed_at, changed_by };
  const end = (title: string, method: string, tail: string) => h("button", { type: "button", click: () => propose(app, {
    title, kind, base: current, path: () => one, done: changed, request: () => ({ method, path: one.replace("?", `/${tail}?`) }),
  }) }, title);
  return h("section", {}, h("h2", {}, t("release")),
    h("dl", {}, h("dt", {}, t("release.share")), h("dd", {}, `${r.percent ?? 0}%`), h("dt", {}, t("release.labels")),
      h("dd", {}, Object.entries(r.labels ?? {}).map(([label, values]) => h("code", { class: "pair" }, `${label}: ${values.join(", ")}`)), !r.labels && "–"), h("dt", {}, t("release.since")), h("dd", {}, r.since ?? "–")),
    !current.value.secret && difference(app, t("release.changes"), kind, { ...bare, content: contentOf(current.value), rules: current.value.rules ?? [] }, { ...bare, content: contentOf(r), rules: r.rules ?? [] }),
    h("p", { class: "actions" }, h("button", { type: "button", click: () => gray(app, kind, schemas, one, current, changed) }, t("release.change")), end(t("promote"), "POST", "promote"), end(t("withdraw"), "DELETE", "release")));
}

/** Begins a gray release, or gives it to more clients or fewer. */
function gray(app: App, kind: Kind, schemas: Schemas | undefined, one: string, current: Answer<Doc>, changed: () => void): void {
  const { t } = app;
  const { name, secret, rules, release: old } = current.value;
  const shown = old ?? current.value;
  const path = one.replace("?", "/release?");
  const asked = { title: t(old ? "release.change.of" : "release.begin.of", { name }), kind, base: current, path: () => one, done: changed };
  if (schemas) {
    const e = editorOf(app, schemas, "PolicyRelease", { percent: old?.percent, labels: old?.labels, rules: old?.rules ?? rules }, t("release.rules"));
    return propose(app, { ...asked, form: e.host, mark: e.mark, request: () => ({ method: "PUT", path, body: e.value() }) });
  }
  const percent = h("input", { type: "number", step: "any", value: old?.percent ?? "" });
  const labels = h("textarea", { rows: 3, spellcheck: "false" });
  labels.value = old?.labels ? JSON.stringify(old.labels, null, 2) : "";
  // Content that is not shown is not replaced by nothing, either.
  const text = h("textarea", { rows: 10, spellcheck: "false", required: secret ?? false });
  text.value = contentOf(shown);
  propose(app, {
    ...asked,
    form: [
      h("label", { class: "field" }, h("span", {}, t("release.percent")), percent),
      h("label", { class: "text" }, h("span", {}, t("release.json")), labels),
      secret && h("p", { class: "hint" }, t("secret.replace")),
      h("label", { class: "text" }, h("span", {}, t("release.content"), shown.content_base64 !== undefined && " (base64)"), text),
    ],
    request: () => ({
      method: "PUT", path,
      body: { ...contentLike(shown, text.value), percent: percent.value === "" ? undefined : Number(percent.value), labels: labels.value.trim() === "" ? undefined : parsed(app, labels.value) },
    }),
  });
}

/** The versions that the reader wants compared, whatever is shown again meanwhile. */
interface Chosen { from?: number; to?: number }

/** The versions that are kept, of which two are compared. */
function versions(app: App, kind: Kind, list: Doc[], chosen: Chosen, rollback: (version: number) => void): Child {
  const { t } = app;
  const newest = list.at(-1)!.version;
  const kept = (version?: number) => list.find((d) => d.version === version)?.version;
  let from = kept(chosen.from) ?? list.at(-2)?.version ?? newest, to = kept(chosen.to) ?? newest;
  const shown = h("div", { "aria-live": "polite" });
  const compare = () => {
    const label = t("diff.of", { from, to });
    const of = (version: number) => list.find((d) => d.version === version);
    shown.replaceChildren(h("h3", {}, label), h("div", {}, difference(app, label, kind, of(from), of(to))));
  };
  const radio = (name: "from" | "to", version: number) => h("input", { type: "radio", name: `diff-${name}`, value: version, checked: version === (name === "from" ? from : to), "aria-label": t(`diff.${name}`, { version }),
    change: () => { chosen[name] = version; if (name === "from") from = version; else to = version; compare(); } });
  compare();
  return [
    table(t("history"), [{ head: t("version") }, { head: t("changed"), left: true, whole: true }, { head: t("who"), left: true }, { head: t("diff.old") }, { head: t("diff.new") }, { head: "" }],
      list.toReversed().map((d) => [d.version, t.instant(d.changed_at), d.changed_by, radio("from", d.version), radio("to", d.version),
        d.version !== newest && h("button", { type: "button", click: () => rollback(d.version) }, t("rollback.to", { version: d.version }))])),
    shown,
  ];
}

/** Edits a resource, or makes a new one. */
function edit(app: App, kind: Kind, schemas: Schemas | undefined, base: Answer<Doc> | undefined, done: (doc: Doc) => void): void {
  const { t } = app;
  const old = base?.value;
  const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true, maxlength: 253, value: old?.name ?? "", disabled: !!old });
  const type = h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: old?.content_type ?? "" });
  const secret = h("input", { type: "checkbox", checked: old?.secret ?? false });
  const text = h("textarea", { rows: 10, spellcheck: "false" });
  text.value = contentOf(old ?? {});
  const e = schemas && editorOf(app, schemas, "PolicyInput", { labels: old?.labels, rules: old?.rules ?? [] }, t("rules.json"));
  const path = () => at([folders[kind], name.value.trim()], { namespace: app.namespace });
  const field = (label: string, control: HTMLElement) => h("label", { class: "field" }, h("span", {}, label), control);
  const change: Change<Doc> = {
    title: old ? t("edit.of", { name: old.name }) : t(`new.${kind}`), kind, base, path, done,
    form: [
      !old && field(t("name"), name),
      kind === "config" && [field(t("type"), type), h("label", { class: "check" }, secret, " ", t("secret.keep"))],
      old?.secret && h("p", { class: "hint" }, t("secret.replace")),
      e ? e.host : h("label", { class: "text" }, h("span", {}, t("content"), old?.content_base64 !== undefined && " (base64)"), text),
    ],
    ...(e && { mark: e.mark }),
    request: () => {
      if (e) return { method: "PUT", path: path(), body: e.value() };
      const { labels } = old ?? {};
      return { method: "PUT", path: path(), body: { labels, ...contentLike(old, text.value), content_type: type.value.trim(), secret: secret.checked } };
    },
  };
  propose(app, change);
}

/** What was entered where another content was shown: in base64 if that was. */
function contentLike(shown: Content | undefined, entered: string): Content {
  return shown?.content_base64 === undefined ? { content: entered } : { content_base64: entered.trim() };
}
