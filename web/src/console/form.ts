// A form for a JSON document, made from its JSON Schema. It changes the document in place.

import { choice, h } from "../dom";
import type { Note } from "./api";
import type { App } from "./app";
import { noteOf, parsed } from "./change";
import { above, become, escape, fieldsOf, fits, isFields, nameOf, resolve, variantField, variantOf, type Fields, type Schema, type Schemas } from "./schema";

/** A field writes its value; undefined is none. */
type Write = (value: unknown) => void;

interface Form {
  host: HTMLElement;
  /** Shows what is to be said of places in the document, next to these. */
  mark(notes: Note[]): void;
}

/** Items of lists are open at first if there are no more. */
const openAtFirst = 2;

function schemaForm({ t }: App, schemas: Schemas, root: Schema, doc: Fields): Form {
  const host = h("div", { class: "schema" });
  const slots = new Map<string, HTMLElement>(); // where notes of a place go, by its pointer
  const openers = new Map<string, () => void>(); // draw what is closed
  const opened = new WeakSet<object>();
  const seen = new WeakSet<object>();

  const slot = <E extends HTMLElement>(at: string, e: E): E => {
    slots.set(at, e);
    return e;
  };

  /** Draws all again after a field came or went, and moves the focus. */
  const redraw = (focus: string) => {
    slots.clear();
    openers.clear();
    host.replaceChildren(draw(root, doc, () => {}, "", true));
    slots.set("", host);
    host.dispatchEvent(new Event("input", { bubbles: true }));
    [...host.querySelectorAll<HTMLButtonElement>("[data-at]")].find((e) => e.dataset["at"] === focus && !e.disabled)?.focus();
  };

  const button = (sign: string, label: string, at: string, click: () => void, disabled = false) =>
    h("button", { type: "button", "aria-label": label, title: label, "data-at": at, disabled, click }, sign);

  /** A field of any kind, or JSON for what the form cannot show. */
  const draw = (given: Schema, value: unknown, write: Write, at: string, required: boolean): HTMLElement => {
    const schema = resolve(schemas, given);
    if (!fits(schemas, schema, value)) return json(value, write, at);
    if (schema.oneOf) return variants(schema, (value ?? {}) as Fields, write, at);
    if (schema.properties) return object(schema, (value ?? {}) as Fields, write, at, required);
    if (schema.type === "object") return map(schema, (value ?? {}) as Fields, write, at);
    if (schema.type === "array") return list(schema, (value ?? []) as unknown[], write, at, required);
    return scalar(schema, value, write, at, required);
  };

  /** The name of a field for people; an item has the name and the number of its list. */
  const nameIn = (at: string): string => {
    const cut = at.lastIndexOf("/");
    const last = at.slice(cut + 1).replaceAll("~1", "/").replaceAll("~0", "~");
    if (last === "" && cut > 0) return nameIn(at.slice(0, cut)); // of a map
    return /^\d+$/.test(last) ? `${nameIn(at.slice(0, cut))} ${Number(last) + 1}` : last;
  };

  const json = (value: unknown, write: Write, at: string) => {
    const box = h("textarea", { rows: 3, spellcheck: "false", "aria-label": nameIn(at), "data-at": at, input: () => {
      try {
        write(JSON.parse(box.value));
        box.setCustomValidity("");
      } catch {
        box.setCustomValidity(t("json.invalid"));
      }
    } });
    box.value = JSON.stringify(value, null, 2);
    return box;
  };

  const scalar = (schema: Schema, value: unknown, write: Write, at: string, required: boolean): HTMLElement => {
    const label = nameIn(at);
    if (schema.enum) {
      const values = schema.enum.filter((v) => v !== 0); // a number that is 0 is not given
      const box = h("select", { "aria-label": label, "data-at": at, change: () => write(values.find((v) => String(v) === box.value)) },
        (!required || value === undefined) && h("option", { value: "" }, "–"), values.map((v) => h("option", { value: v, selected: v === value }, v)));
      return box;
    }
    if (schema.type === "boolean") {
      const box = h("input", { type: "checkbox", checked: value === true, "aria-label": label, "data-at": at, change: () => write(box.checked || undefined) });
      return box;
    }
    const isNumber = schema.type !== "string";
    const low = schema.minimum ?? schema.exclusiveMinimum;
    const box = h("input", {
      type: isNumber ? "number" : "text", step: isNumber && "any", autocomplete: "off", spellcheck: "false", "aria-label": label, "data-at": at, maxlength: schema.maxLength,
      placeholder: isNumber && low !== undefined && `${schema.exclusiveMinimum === undefined ? "" : "> "}${low} … ${schema.maximum}`, value: value === undefined ? "" : String(value),
      input: () => write(box.value === "" ? undefined : isNumber ? Number(box.value) : box.value),
    });
    return box;
  };

  /** Whether a list or map has no structures in it. */
  const isPlain = (schema: Schema) => !schema.properties && !schema.oneOf && !Object.keys(resolve(schemas, schema.items ?? {})).some((key) => key === "oneOf" || key === "properties");

  /** A field with its name; what has fields of its own is framed. */
  const named = (name: string, given: Schema, value: unknown, write: Write, at: string, required: boolean) => {
    const schema = resolve(schemas, given);
    const content = draw(schema, value, write, at, required);
    const label = h("code", {}, name, required && " *");
    const single = schema.enum || !["object", "array"].includes(schema.type ?? "object");
    if (single) content.removeAttribute("aria-label"); // it is in its label
    return slot(at, single ? h("label", { class: "field" }, label, content) : h("fieldset", { class: isPlain(schema) ? "plain" : undefined }, h("legend", {}, label), content));
  };

  const object = (schema: Schema, value: Fields, write: Write, at: string, required: boolean, without = "") =>
    h("div", {}, fieldsOf(schema).filter(([name]) => name !== without).map(([name, s, must]) => named(name, s, value[name], (v) => {
      if (v === undefined) delete value[name];
      else value[name] = v;
      write(required || Object.keys(value).length > 0 ? value : undefined);
    }, `${at}/${escape(name)}`, must)));

  const variants = (schema: Schema, value: Fields, write: Write, at: string) => {
    const by = variantField(schema);
    const variant = variantOf(schema, value);
    const place = `${at}/${by}`;
    const box = h("select", { "data-at": place, change: () => { become(schema, value, box.value); write(value); redraw(place); } },
      !variant && h("option", { value: "" }, "–"), schema.oneOf!.map((one) => nameOf(one, by)).map((v) => h("option", { value: v, selected: v === value[by] }, v)));
    return h("div", {}, slot(place, h("label", { class: "field" }, h("code", {}, by, " *"), box)), variant && object(variant, value, write, at, true, by));
  };

  const map = (schema: Schema, value: Fields, write: Write, at: string) => {
    const entries = Object.entries(value);
    const save = () => write(entries.length > 0 ? Object.fromEntries(entries) : undefined);
    const inner = schema.additionalProperties as Schema;
    const rows = entries.map((entry, i) => {
      let place = `${at}/${escape(entry[0])}`;
      const row = slot(place, h("div", { class: "entry" }));
      const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": t("map.name", { name: nameIn(at) }), "data-at": `${place}#name`, value: entry[0], input: () => {
        const taken = entries.some((other) => other !== entry && other[0] === name.value);
        name.setCustomValidity(taken ? t("map.taken") : "");
        if (taken) return;
        entry[0] = name.value;
        slots.delete(place);
        slot(place = `${at}/${escape(entry[0])}`, row);
        save();
      } });
      row.append(name, draw(inner, entry[1], (v) => { entry[1] = v ?? ""; save(); }, place, true),
        button("×", t("list.remove", { name: entry[0] || nameIn(at) }), `${place}#remove`, () => { entries.splice(i, 1); save(); redraw(`${at}#add`); }));
      return row;
    });
    return h("div", {}, rows, button("+", t("list.add", { name: nameIn(at) }), `${at}#add`, () => {
      if (!entries.some(([name]) => name === "")) entries.push(["", resolve(schemas, inner).type === "array" ? [] : ""]);
      save();
      redraw(`${at}/#name`);
    }));
  };

  const list = (schema: Schema, value: unknown[], write: Write, at: string, required: boolean) => {
    const items = resolve(schemas, schema.items ?? {});
    const save = () => write(required || value.length > 0 ? value : undefined);
    if (items.enum) {
      return h("div", { class: "picks" }, items.enum.map((v) => {
        const box = h("input", { type: "checkbox", checked: value.includes(v), change: () => {
          if (box.checked) value.push(v);
          else value.splice(value.indexOf(v), 1);
          save();
        } });
        return h("label", {}, box, " ", h("code", {}, v));
      }));
    }
    const structured = items.oneOf ?? items.properties;
    const move = (from: number, to: number, key: string) => {
      value.splice(to, 0, ...value.splice(from, 1));
      save();
      redraw(`${at}/${to}#${key}`);
    };
    const rows = value.map((one, i) => {
      const place = `${at}/${i}`, name = nameIn(place);
      const content = () => draw(items, one, (v) => { value[i] = v ?? (structured ? {} : ""); save(); }, place, true);
      return h("div", { class: structured ? "entry wide" : "entry" }, items.oneOf ? folded(one, place, i + 1, value.length, content) : slot(place, h("div", {}, content())),
        h("span", { class: "buttons" },
          button("↑", t("list.up", { name }), `${place}#up`, () => move(i, i - 1, i > 1 ? "up" : "down"), i === 0),
          button("↓", t("list.down", { name }), `${place}#down`, () => move(i, i + 1, i < value.length - 2 ? "down" : "up"), i === value.length - 1),
          button("×", t("list.remove", { name }), `${place}#remove`, () => { value.splice(i, 1); save(); redraw(`${at}#add`); })));
    });
    return h("div", {}, rows, button("+", t("list.add", { name: nameIn(at) }), `${at}#add`, () => {
      const one = structured ? {} : "";
      if (structured) seen.add(one as object), opened.add(one as object);
      value.push(one);
      save();
      redraw(items.oneOf ? `${at}/${value.length - 1}/${variantField(items)}` : `${at}/${value.length - 1}`);
    }));
  };

  /** An item of a long list, which is drawn when it is opened. */
  const folded = (one: unknown, at: string, number: number, among: number, content: () => HTMLElement) => {
    const key = isFields(one) ? one : host;
    if (!seen.has(key) && among <= openAtFirst) opened.add(key);
    seen.add(key);
    const about = h("code", {});
    const summarize = () => { about.textContent = JSON.stringify(one); };
    const body = slot(at, h("div", {}));
    const box = h("details", { open: opened.has(key), input: summarize, toggle: () => {
      if (box.open) open();
      else opened.delete(key);
    } }, h("summary", {}, h("b", {}, `${number}.`), " ", about), body);
    const open = () => {
      opened.add(key);
      box.open = true;
      if (!body.hasChildNodes()) body.append(content());
    };
    openers.set(at, open);
    summarize();
    if (opened.has(key)) open();
    return box;
  };

  redraw("");
  return {
    host,
    mark: (notes) => {
      host.querySelectorAll(".note").forEach((e) => e.remove());
      for (const note of notes) {
        const places = above(note.pointer);
        for (const place of places.toReversed()) openers.get(place)?.();
        slots.get(places.find((place) => slots.has(place))!)?.append(noteOf(note));
      }
    },
  };
}

export interface Editor extends Form {
  /** The document, or an error if its JSON is none. */
  value(): unknown;
}

/** Edits a document by a form or as JSON: both show the same document. */
export function editor(app: App, schemas: Schemas, schema: Schema, doc: Fields, label: string): Editor {
  const { t } = app;
  let view: "form" | "json" = "form";
  let form: Form | undefined;
  let notes: Note[] = [];
  const text = h("textarea", { rows: 16, spellcheck: "false", "aria-label": label });
  const wrong = h("div", { "aria-live": "polite" });
  const body = h("div", { input: () => { notes = []; wrong.replaceChildren(); } });
  const show = (content: unknown) => {
    form = undefined;
    if (view === "form" && isFields(content) && fits(schemas, schema, content)) {
      form = schemaForm(app, schemas, schema, content);
      doc = content;
      form.mark(notes);
    }
    if (!form) text.value = JSON.stringify(content, null, 2);
    body.replaceChildren(form?.host ?? text);
  };
  const value = () => (form ? doc : parsed(app, text.value));
  const views = choice(t("view"), [["form", t("view.form")], ["json", "JSON"]], view, (chosen) => {
    try {
      const content = value();
      view = chosen;
      show(content);
      if (view === "form" && !form) throw new Error(t("view.unknown"));
    } catch (error) {
      view = "json";
      views.querySelectorAll("input").forEach((e) => { e.checked = e.value === view; });
      wrong.replaceChildren(h("p", { role: "alert", class: "alarm" }, (error as Error).message));
    }
  });
  views.addEventListener("input", (e) => e.stopPropagation()); // another view is no change
  show(doc);
  return { host: h("div", {}, views, wrong, body), value, mark: (list) => { notes = list; form?.mark(notes); } };
}
