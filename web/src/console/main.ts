import "../style.css";
import "../ui/ui.css";
import "./console.css";
import { h } from "../dom";
import { shell, type Page, type Visit } from "../shell";
import { setToken } from "./api";
import { problem, type App } from "./app";
import { audit } from "./audit";
import { calls } from "./calls";
import { locks } from "./locks";
import { resource, resources } from "./resources";
import { instancesRollout, kindOf, rollout, rollouts } from "./rollouts";
import { instance, service, services } from "./services";
import { consoleTexts, type ConsoleTexts } from "./texts";

let namespace = "default";

/** Where the address leads to. */
function pageOf(visit: Visit<ConsoleTexts>, name: string, below: string[], query: URLSearchParams): Page | Promise<Page> {
  namespace = query.get("ns") || namespace;
  query.set("ns", namespace);
  const app: App = { ...visit, namespace, query, here: [name, ...below].map(encodeURIComponent).join("/"), lock: () => frame.lock(), problem: (error) => problem(visit.t, error) };
  const [first = "", second = ""] = below;
  switch (name) {
    case "services":
      return services(app);
    case "service":
      return service(app, first);
    case "instance":
      return instance(app, first, second);
    case "configs":
      return resources(app, "config");
    case "policies":
      return resources(app, "policy");
    case "config":
    case "policy":
      return resource(app, name, first);
    case "rollouts":
      return rollouts(app);
    case "rollout":
      return first === "instance" ? instancesRollout(app, second) : rollout(app, kindOf(first), second);
    case "calls":
      return calls(app);
    case "locks":
      return locks(app);
    case "audit":
      return audit(app);
  }
  return { title: app.t("unknownPage"), content: h("a", { href: "#/services" }, app.t("nav.services")) };
}

const frame = shell<ConsoleTexts>({
  name: "dyno control",
  pages: [["services", (t) => t("nav.services")], ["configs", (t) => t("nav.configs")], ["policies", (t) => t("nav.policies")], ["calls", (t) => t("nav.calls")], ["rollouts", (t) => t("nav.rollouts")], ["locks", (t) => t("nav.locks")], ["audit", (t) => t("nav.audit")]],
  texts: consoleTexts,
  page: pageOf,
  problem,
  token: (value) => { setToken(value); void frame.show(false); },
});

addEventListener("hashchange", () => void frame.show(true));
void frame.show(false);
