import "uplot/dist/uPlot.min.css";
import "../style.css";
import { h, settle, type Child } from "../dom";
import { version, type Report } from "../document";
import { textsIn, type Key } from "../i18n";
import { instantIn } from "../i18n/pages";
import { dress, switches, usual } from "../settings";
import { agents } from "./agents";
import { comparisons, ladder } from "./comparison";
import { workOf, type Choices, type Context } from "./context";
import { dimensions, figures } from "./figures";
import { header } from "./header";
import { histories, type Past } from "./history";
import { latency } from "./latency";
import { loaded } from "./loaded";
import { claims, environment, missing, notes, reproduce, thresholds, trends } from "./outcomes";
import { slowest } from "./slowest";
import { stages } from "./stages";
import { steps } from "./steps";
import { streams } from "./streams";
import { sweeps } from "./sweep";
import { time } from "./time";
import { validity } from "./validity";
import { flames, why } from "./why";

// What answers the question is drawn first; then follows how far it may be trusted, and what
// explains it.
const sections: [string, Key, (c: Context) => Child[]][] = [
  ["ladder", "section.ladder", ladder],
  ["sweep", "section.sweep", sweeps],
  ["comparison", "section.comparison", comparisons],
  ["latency", "section.latency", latency],
  ["thresholds", "section.thresholds", thresholds],
  ["claims", "section.claims", claims],
  ["trends", "section.trends", trends],
  ["time", "section.time", time],
  ["validity", "section.validity", validity],
  ["agents", "section.agents", agents],
  ["slowest", "section.slowest", slowest],
  ["figures", "section.figures", figures],
  ["loaded", "section.loaded", loaded],
  ["stages", "section.stages", stages],
  ["steps", "section.steps", steps],
  ["streams", "section.streams", streams],
  ["dimensions", "section.dimensions", dimensions],
  ["why", "section.why", why],
  ["flames", "section.flames", flames],
  ["missing", "section.missing", missing],
  ["environment", "section.environment", environment],
  ["reproduce", "section.reproduce", reproduce],
  ["notes", "section.notes", notes],
];

/** What a page of several runs embeds. */
interface Histories {
  version: number;
  history: Past;
}

async function read(): Promise<Report | Histories> {
  const text = document.getElementById("document")?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Report | Histories;
}

/** Draws a page of several runs. */
function drawHistory(past: Past, chosen: Choices): void {
  dress(chosen);
  const t = textsIn(chosen.language);
  const host = document.getElementById("report")!;
  host.replaceChildren(h("main", { id: "main" },
    h("header", {}, h("div", { class: "top" }, h("p", { class: "name" }, "dyno", h("span", {}, t("history.runs"))), h("div", { class: "switches" }, switches(chosen, () => drawHistory(past, chosen))))),
    h("h1", {}, [...new Set(past.experiments.map((e) => e.name))].join(", ")),
    histories(t, past.experiments, { run: (dir) => dir, instant: instantIn(chosen.language) }, true)));
  host.dataset["state"] = "drawn";
}

let drawn = 0;

/** Draws the page: what is seen first at once, the rest piece by piece behind it. */
function draw(doc: Report, chosen: Choices, ends: (() => void)[]): void {
  const current = ++drawn;
  for (const end of ends) end();
  const t = textsIn(chosen.language, workOf(doc.run));
  const c: Context = { doc, t, chosen, redraws: [], ends: [] };
  const again = () => draw(doc, chosen, c.ends);
  dress(chosen);

  const links = h("ul");
  const main = h("main", { id: "main" }, header(c, again));
  const host = document.getElementById("report")!;
  const scrolled = scrollY;
  host.replaceChildren(h("a", { class: "skip", href: "#main" }, t("skip")), h("nav", { "aria-label": t("contents") }, links), main);
  host.dataset["state"] = "drawing";

  const rest = sections.values();
  const step = () => {
    if (current !== drawn) return; // a newer drawing has begun
    const next = rest.next();
    if (next.done) {
      host.dataset["state"] = "drawn";
      return;
    }
    const [id, title, make] = next.value;
    const content = make(c);
    const section = h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, t(title)), content);
    if (section.childNodes.length > 1) {
      main.append(section);
      links.append(h("li", {}, h("a", { href: `#${id}` }, t(title))));
    }
    if (id === "comparison") scrollTo(0, Math.min(scrolled, document.body.scrollHeight));
    setTimeout(step);
  };
  step();

  const repaint = () => {
    c.redraws.forEach((f) => f());
    settle();
  };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const media = matchMedia("print");
  scheme.addEventListener("change", repaint);
  media.addEventListener("change", repaint);
  c.ends.push(() => {
    scheme.removeEventListener("change", repaint);
    media.removeEventListener("change", repaint);
  });
}

async function start(): Promise<void> {
  const chosen: Choices = { ...usual(), hidden: new Set(), search: "" };
  const t = textsIn(chosen.language);
  try {
    const doc = await read();
    if (doc.version !== version) throw new Error(t("broken.version", { have: String(doc.version), want: version }));
    if ("history" in doc) drawHistory(doc.history, chosen);
    else draw(doc, chosen, []);
  } catch (error) {
    document.getElementById("report")!.replaceChildren(h("p", { role: "alert" }, t("broken", { reason: error instanceof Error ? error.message : String(error) })));
    throw error;
  }
}

void start();
