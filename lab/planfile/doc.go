// Package planfile reads experiment files: YAML in, a validated plan (see package plan) out. The tags
// of the plan give the JSON Schema published as schema.json, docs/reference/experiment.md and the flags
// of quick loads.
//
// A file is read strictly. All faults are reported at once, in the order of the file, with line,
// column, field and remedy:
//
//	relay.yaml:12:3: load.windw: unknown field; did you mean "window"?
//	relay.yaml:14:25: load.closed.connections: 2000000 is too much; from 1 to 1000000
//
// # Variants and variables
//
// A compare section names variants, a sweep makes one of every combination of
// values. Either gives each variant its variables; a compared variant takes
// those it does not set from the base. A variable replaces {{name}} in any
// scalar of target, services and load, numbers and durations included:
//
//	load: {closed: {connections: "{{connections}}"}}
//	sweep: {connections: [100, 500, 1000]}
//
// A ladder makes a variant of every step, which has the variables of the steps before it and its own.
// That is the only way in which variants differ. Some names are not variables, but filled in by the
// trial: see plan.RuntimeNames. {{ "{{" }} stands for the braces themselves. The content of a body_file
// is sent as it is. In a scenario, braces that name no variable are the scenario's own. They are
// compiled with its data when the plan is read. So a missing column is found before anything starts.
//
// # What decides
//
// The section design gives the number of rounds, their stopping rule, the metric that decides, and the
// difference that matters. A compare and a ladder measure their base twice, the second time as
// BASE.control: that shows what no difference looks like.
//
// A file may also ask for a search of the highest rate within the thresholds (capacity), or for trends
// (soak). A target with the protocol program is run, not loaded: it prints its figures itself.
//
// # The short form
//
// The section short says which rounds, warm-up, window, variants or values a quick look makes do with;
// Options.Short asks for it. All its rounds are made, whatever design.stop says. A ladder's steps stay
// the same when others are left out.
//
// Parse is pure. ReadFile reads the file and looks whether the files it names
// are there.
package planfile
