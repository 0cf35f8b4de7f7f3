package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// arrow says what the packages of one tree may import of this module. A tree is
// a path below the module with everything under it. What a tree may import of
// itself is stated like all else.
type arrow struct {
	tree   string
	may    []string // trees
	reason string
}

// arrows is the design. The most specific tree holds for a package.
var arrows = []arrow{
	{"cmd/dyno", []string{"internal/cli"}, "main maps an error to an exit code and does nothing else"},
	{"internal/cli", []string{
		"trial", "verdict", "report", "history", "calibrate", "services", "truth", "experiment", "engine", "target", "observe",
		"rundir", "scenario", "pace", "hist", "stat", "wire", "profile", "explain", "micro", "awake", "sysctl",
		"push", "ui", "disturb",
	}, "the command line joins all stages"},
	{"trial", []string{
		"experiment", "engine", "target", "observe", "profile", "rundir",
		"scenario", "pace", "hist", "wire", // to make what the engine runs
		"capacity", // to know which rate to try next
		"awake",    // beside the trials
		"sysctl",   // before the first and after the last
	}, "a trial measures; what its figures mean is the verdict's business, made from the run folder"},
	{"calibrate", []string{
		"trial", "verdict", "explain", "experiment", "engine", "truth", "target", "observe", "rundir", "stat", "pace", "hist", "wire", "awake", "disturb",
	}, "calibration holds all that measures against servers with a known answer"},
	{"experiment", []string{"scenario", "pace", "wire"}, "a plan is data; nothing is started to read it"},
	{"engine", []string{"scenario", "pace", "hist", "wire"}, "the engine knows no files, processes or reports"},
	{"scenario", []string{"wire", "pace", "feed", "jsonpath", "internal/nearest"}, "requests and assertions, without clocks or sockets"},
	{"feed", []string{"pace", "jsonpath"}, "rows of files, shared out as everything else is"},
	{"jsonpath", nil, "a document and a path need nothing else"},
	{"target", []string{"proc"}, "starting and stopping processes needs nothing of the lab"},
	{"observe", []string{"observe", "proc", "loopback"}, "observers watch any process, not only ours"},
	{"profile", []string{"profile", "proc", "loopback"}, "profiles are fetched from any process"},
	{"explain", []string{"profile", "rundir", "stat"}, "an explanation is made from the run folder and the profiles in it"},
	{"report", []string{"texts", "verdict", "explain", "history", "rundir", "stat", "hist"}, "a report is made from a folder somebody sent, never by measuring"},
	{"report/html", []string{"texts", "report", "verdict", "explain", "history", "profile", "rundir", "stat", "hist"}, "a page is made from the same folder, and draws the profiles in it"},
	{"report/assets", nil, "built files, and how they are embedded"},
	{"ui", []string{"experiment", "rundir", "verdict", "history", "services/events"}, "what shows runs measures none: they are processes of their own"},
	{"verdict", []string{"texts", "rundir", "stat", "hist", "wire", "capacity"}, "a verdict is made from the run folder alone; wire gives the kinds of errors their names"},
	{"history", []string{"rundir", "stat"}, "a history is of runs as they were judged; nothing is judged anew"},
	{"texts", nil, "words need nothing but themselves"},
	{"rundir", []string{"hist"}, "the on-disk format is the contract between measuring and reporting"},
	{"push", []string{"engine", "hist"}, "live figures are what the engine records anyway, sent without holding it up"},
	{"pace", nil, "schedules are pure"},
	{"hist", nil, "recording is pure"},
	{"stat", nil, "statistics are pure"},
	{"capacity", nil, "a search decides which rate comes next, from the trials so far and nothing else"},
	{"wire", []string{"wire"}, "codecs do no I/O and know only their contract"},
	{"truth", nil, "a reference that shares code with what it checks would share its faults"},
	{"services", nil, "a service is a program of its own, measured like anybody's"},
	{"services/echo", []string{"services/internal"}, "services share their life cycle and event loop, nothing else"},
	{"services/relay", []string{"services/internal", "services/relay"}, "services share their life cycle and event loop, nothing else"},
	{"services/events", []string{"services/internal", "services/events"}, "services share their life cycle and event loop, nothing else"},
	{"services/internal", []string{"services/internal"}, "what services share knows none of them"},
	{"sysctl", nil, "it outlives whoever wants settings changed, and knows nothing of why"},
	{"proc", nil, "it reads what the kernel shows, for whoever wants to know"},
	{"loopback", nil, "one rule for every client that asks a program about itself"},
	{"awake", nil, "it runs beside a measurement and knows nothing of it"},
	{"disturb", nil, "it takes CPUs away and knows nothing of who had them"},
	{"micro", nil, "a program that is measured takes nothing from what measures it"},
	{"internal/leak", nil, "it knows goroutines, and nothing of whose they are"},
	{"internal/nearest", nil, "it compares words, whatever they mean"},
	{"internal/rules", nil, "rules look at the code from outside"},
	{"deploy", []string{"push", "services"}, "its tests hold dashboards and rules to what is really exported"},
	{"bench", nil, "a referee between dyno and others uses neither"},
	{"scripts", nil, "development tools stand alone"},
}

// testsMay is what tests may import beyond their package's arrows.
var testsMay = []string{
	"truth",         // servers with a known answer
	"internal/leak", // what fails them when a goroutine outlives them
}

// within tells whether a package path lies in a tree.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

// checkArrows returns what is wrong with the packages' imports.
func checkArrows(module string, packages []goPackage) (faults []string) {
	local := func(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }
	for _, p := range packages {
		path, _ := local(p.ImportPath)
		rule, found := arrow{}, false
		for _, a := range arrows {
			if within(path, a.tree) && len(a.tree) >= len(rule.tree) {
				rule, found = a, true
			}
		}
		if !found {
			faults = append(faults, fmt.Sprintf("%s: no rule for this package: add it to the table of arrows, with a reason", p.ImportPath))
			continue
		}
		check := func(imports, more []string, kind string) {
			for _, imported := range imports {
				to, ok := local(imported)
				if !ok || to == path {
					continue
				}
				allowed := func(tree string) bool { return within(to, tree) }
				if !slices.ContainsFunc(rule.may, allowed) && !slices.ContainsFunc(more, allowed) {
					faults = append(faults, fmt.Sprintf("%s: %s %s, and may not: %s", p.ImportPath, kind, imported, rule.reason))
				}
			}
		}
		check(p.Imports, nil, "imports")
		check(slices.Concat(p.TestImports, p.XTestImports), testsMay, "tests import")
	}
	return faults
}

func TestArrows(t *testing.T) {
	for _, f := range checkArrows(module(t), listPackages(t)) {
		t.Error(f)
	}
}

func TestArrowsCanFail(t *testing.T) {
	packages := []goPackage{
		{ImportPath: "m/report", Imports: []string{"m/trial", "m/rundir", "fmt"}},
		{ImportPath: "m/services/echo", Imports: []string{"m/services/internal/serve", "m/services/relay", "m/hist"}},
		{ImportPath: "m/wire/http1", Imports: []string{"m/wire"}, TestImports: []string{"m/truth", "m/engine"}},
		{ImportPath: "m/pace", Imports: []string{"m/pacemaker"}},
		{ImportPath: "m/brandnew"},
	}
	expectFaults(t, checkArrows("m", packages),
		"m/report: imports m/trial,", "m/services/echo: imports m/services/relay,", "m/services/echo: imports m/hist,",
		"m/wire/http1: tests import m/engine,", "m/pace: imports m/pacemaker,", "m/brandnew: no rule")
}

// No arrow may lead back to where it came from: the table itself has an order.
func TestArrowsHaveNoCycle(t *testing.T) {
	may := map[string][]string{}
	for _, a := range arrows {
		if a.reason == "" {
			t.Errorf("%s: no reason", a.tree)
		}
		for _, to := range a.may {
			if !within(a.tree, to) { // packages of one tree may import each other; the compiler refuses cycles there
				may[a.tree] = append(may[a.tree], to)
			}
		}
	}
	var visit func(from string, path []string)
	visit = func(from string, path []string) {
		if slices.Contains(path, from) {
			t.Fatalf("cycle: %v", append(path, from))
		}
		for _, to := range may[from] {
			visit(to, append(slices.Clip(path), from))
		}
	}
	for _, a := range arrows {
		visit(a.tree, nil)
	}
}
