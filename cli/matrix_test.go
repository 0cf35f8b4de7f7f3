package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/exit"
	"dyno/judge/verdict"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

var matrix = flag.String("matrix", "", "TestFaultMatrix runs every cell of these loads, or of all, and not only a covering few; with -update it writes them to docs/reference/faults.md")

// The faults of a target, their moments, and the loads.
var (
	matrixFaults  = []string{"hangs", "crashes", "half-hang", "never-reads", "refuses", "resets", "slows"}
	matrixMoments = []string{"before", "warm-up", "mid-window", "last second"}
	matrixLoads   = []string{"closed", "open", "subscribers", "publish", "capacity", "compare", "ladder", "soak", "program"}
)

const (
	matrixTable  = "../docs/reference/faults.md"
	matrixAtOnce = 8 // cells that run at the same time: they are mostly idle
	matrixTries  = 4 // of a cell that the machine disturbed
	healthy      = "50m"
)

// A matrixCell is one fault at one moment under one load. Without a fault the target is
// healthy.
type matrixCell struct{ load, fault, moment string }

func (c matrixCell) String() string { return c.load + "/" + c.fault + "/" + c.moment }

// senseless says why there is no such cell, or "".
func (c matrixCell) senseless() string {
	switch {
	case c.load == "program" && c.fault != "hangs" && c.fault != "crashes" && c.fault != "slows":
		return "a program has no connections"
	case c.load == "program" && (c.moment == "warm-up" || c.moment == "last second"):
		return "a program has no phases: it breaks at once, or while it works"
	case c.load == "subscribers" && c.fault == "never-reads" && c.moment != "before":
		return "a subscriber sends nothing after its request, so there is nothing left to read"
	}
	return ""
}

// phases are the lengths of a load's warm-up and window.
func (c matrixCell) phases() (warmup, window time.Duration) {
	switch c.load {
	case "capacity", "compare", "ladder":
		return 300 * time.Millisecond, 1200 * time.Millisecond
	}
	return 400 * time.Millisecond, 2 * time.Second
}

// after is when the target breaks, from the load's first byte on.
func (c matrixCell) after() string {
	warmup, window := c.phases()
	at := map[string]time.Duration{
		"": 50 * time.Minute, "before": 0, "warm-up": warmup / 2, "mid-window": warmup + window/2, "last second": warmup + window - 500*time.Millisecond,
	}[c.moment]
	return at.String()
}

// experiment is the plan of a cell.
func (c matrixCell) experiment() string {
	if c.load == "program" {
		return c.program()
	}
	fault, after := c.fault, c.after()
	if fault == "" {
		fault = "hangs"
	}
	warmup, window := c.phases()
	origin, protocol := "dyno, "+oracle.Command+", delay, --delay, 2ms, --listen, \"127.0.0.1:{{port}}\"", "http"
	load, latency, rest := "", "service.max", "design: {rounds: 1}\n"
	switch c.load {
	case "closed":
		load = "closed: {connections: 8, think: 5ms}"
	case "open", "soak":
		load, latency = "open: {rate: 400/s, arrivals: poisson, max_connections: 20}", "response.max"
		if c.load == "soak" {
			rest += "soak: true\n"
		}
	case "capacity":
		load, latency = "open: {arrivals: poisson, max_connections: 20}", "response.max"
		rest += "capacity: {from: 200/s, to: 400/s, resolution: 50%, trials: 1}\n"
	case "subscribers":
		protocol, origin = "sse", "dyno, "+oracle.Command+", stream, --rate, \"50\", --listen, \"127.0.0.1:{{port}}\""
		load, latency = "subscribers: {connections: 6}", "delivery.max"
	case "publish":
		protocol, origin = "sse", "dyno, serve, events, --listen, \"127.0.0.1:{{port}}\", --drain-timeout, 0s"
		load, latency = "subscribers: {connections: 6}, publish: {path: '/publish?topic=a'}, open: {rate: 100/s, max_connections: 4}", "delivery.max"
	case "compare":
		load = "closed: {connections: 8, think: 5ms}"
		rest = "design: {rounds: 2, control: false, remeasure: false}\n" +
			"compare:\n  base: a\n  variants: {a: {fault: hangs, after: " + healthy + "}, b: {fault: " + fault + ", after: " + after + "}}\n"
	case "ladder":
		load = "closed: {connections: 8, think: 5ms}"
		rest = "design: {rounds: 2, control: false, remeasure: false}\n" +
			"ladder:\n  steps: {1-plain: {fault: hangs, after: " + healthy + "}, 2-broken: {fault: " + fault + ", after: " + after + "}}\n"
	}
	// A threshold distinguishes a slow target, which answers everything.
	if c.fault == "slows" || c.load == "capacity" {
		rest += "thresholds: [\"" + latency + " < 100ms\", \"errors.ratio < 1%\"]\n"
		if c.load == "subscribers" {
			rest = strings.Replace(rest, ", \"errors.ratio < 1%\"", "", 1) // nothing is requested
		}
	}
	path := "/"
	if protocol == "sse" {
		path = "/events?topic=a"
	}
	plan := fmt.Sprintf(`name: %s
target:
  protocol: %s
  url: "http://127.0.0.1:{{port}}%s"
  start: [dyno, %s, breaking, --listen, "127.0.0.1:{{port}}", --to, "{{origin.addr}}", --fault, "{{fault}}", --after, "{{after}}", --delay, 200ms]
  ready: tcp
  ready_timeout: 10s
services:
  origin: {start: [%s], ready: tcp}
load:
  %s
  warmup: %v
  window: %v
  timeout: 10s
observe: {kernel: none} # takes as much CPU time as all the rest
%s`, c.load, protocol, path, oracle.Command, origin, strings.ReplaceAll(load, "}, ", "}\n  "), warmup, window, rest)
	if c.load == "compare" || c.load == "ladder" {
		return plan // which has the fault as a variable
	}
	return strings.NewReplacer("{{fault}}", fault, "{{after}}", after).Replace(plan)
}

// program is the plan of a program, which is its own load.
func (c matrixCell) program() string {
	const well = `echo "{\"op_seconds\": 0.001}"`
	script := well
	switch c.fault {
	case "hangs":
		script = "sleep 60"
	case "crashes":
		script = "exit 7"
	case "slows":
		script = `echo "{\"op_seconds\": 0.1}"`
	}
	if c.moment == "mid-window" {
		script = "sleep 0.3; " + script
	}
	return "name: program\ntarget: {protocol: program, start: [sh, -c, '" + script + "'], timeout: 1s}\n" +
		"design: {rounds: 1, metric: program.op_seconds}\nthresholds: [\"program.op_seconds < 10ms\"]\n"
}

// A matrixOutcome is the result of a cell's run.
type matrixOutcome struct {
	code         int
	findings     []string // kinds
	thresholds   []string // broken
	verdict      string   // of a comparison
	errors       *float64
	availability *float64
	disturbed    bool // a trial was disturbed by the machine
	noisy        bool // a check on the machine, or on dyno's part of it, found something
	output       string
}

// settle runs a cell, again if the machine was too busy to judge the target.
func (c matrixCell) settle(ctx context.Context, dir func() string) (o matrixOutcome, err error) {
	for range matrixTries {
		o, err = c.run(ctx, dir())
		if err != nil || o.code != exit.Invalid && o.wrong(c) == "" || !o.noisy {
			break
		}
	}
	return o, err
}

// run runs a cell once.
func (c matrixCell) run(ctx context.Context, dir string) (matrixOutcome, error) {
	file := filepath.Join(dir, "cell.yaml")
	if err := os.WriteFile(file, []byte(c.experiment()), 0o600); err != nil {
		return matrixOutcome{}, err
	}
	args := []string{"run"}
	if c.load == "compare" {
		args = []string{"compare", "--fail-on-regression"}
	}
	cmd := exec.CommandContext(ctx, "dyno", append(args, "-q", "-o", "run", "cell.yaml")...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return matrixOutcome{}, err
	}
	o := matrixOutcome{code: cmd.ProcessState.ExitCode(), output: string(said)}
	f, err := rundir.Open(filepath.Join(dir, "run"))
	if err != nil {
		return o, fmt.Errorf("%w; dyno said:\n%s", err, said)
	}
	broken := verdict.Breaking(&f.Run)
	for _, x := range f.Run.Trials { // the probes of a search make no flags of the run
		o.disturbed = o.disturbed || x.Disturbed
		for _, k := range x.Checks {
			if (k.About == rundir.AboutMachine || k.About == rundir.AboutGenerator) && (k.Outcome == rundir.CheckDisturbed || k.Outcome == rundir.CheckWarning) {
				o.noisy = true
			}
			if k.Outcome == rundir.CheckBroken {
				broken = append(broken, rundir.Flag{Kind: k.Kind})
			}
		}
	}
	for _, b := range broken {
		if !slices.Contains(o.findings, b.Kind) {
			o.findings = append(o.findings, b.Kind)
		}
	}
	for _, t := range f.Run.Thresholds {
		if t.Outcome == rundir.Broken {
			o.thresholds = append(o.thresholds, t.Text)
		}
	}
	for _, k := range f.Run.Comparisons {
		if k.Metric == "throughput" {
			o.verdict = k.Verdict
		}
	}
	if n := len(f.Run.Variants); n > 0 {
		v := f.Run.Variants[n-1]
		o.errors, o.availability = v.Known(rundir.MetricErrorRatio), v.Known(rundir.MetricAvailability)
	}
	return o, nil
}

// wrong says what is wrong with an outcome, or "".
func (o matrixOutcome) wrong(c matrixCell) string {
	if c.fault == "" {
		switch {
		case len(o.findings) > 0:
			return fmt.Sprintf("findings about a healthy target: %v", o.findings)
		case o.code != exit.Done && o.code != exit.Invalid && o.code != exit.Threshold: // a busy machine disturbs any run
			return fmt.Sprintf("exit code %d of a healthy target", o.code)
		}
		return ""
	}
	switch o.code {
	case exit.Target, exit.Regression:
		// A target that ends before there was a window leaves nothing to find. Then dyno says so in words.
		ended := c.fault == "crashes" && strings.Contains(o.output, "target dyno: exited: exit status 7\nnothing was measured")
		if len(o.findings) == 0 && o.verdict != rundir.Worse && !ended {
			return "no finding says why"
		}
	case exit.Threshold:
		if len(o.thresholds) == 0 && len(o.findings) == 0 {
			return "no threshold is broken"
		}
	case exit.Invalid:
		if c.fault == "slows" && o.disturbed {
			return "" // a slow target answers everything: a disturbed machine looks the same, and dyno says so
		}
		return "a target's fault is blamed on the generator or the machine"
	default:
		return fmt.Sprintf("exit code %d: want that of a target that failed (3), of a threshold (99) or of a regression (5)", o.code)
	}
	return ""
}

// cell is the table's text for an outcome.
func (o matrixOutcome) cell() string {
	parts := []string{fmt.Sprintf("**%d**", o.code)}
	if len(o.findings) > 0 {
		parts = append(parts, strings.Join(o.findings, ", "))
	}
	if len(o.thresholds) > 0 {
		parts = append(parts, "threshold")
	}
	if o.verdict != "" {
		parts = append(parts, o.verdict)
	}
	share := func(name string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100**v))
		}
	}
	share("errors", o.errors)
	share("available", o.availability)
	return strings.Join(parts, "; ")
}

// allCells are the cells of the matrix that make sense, for some loads.
func allCells(loads []string) []matrixCell {
	var cells []matrixCell
	for _, load := range loads {
		for _, fault := range matrixFaults {
			for _, moment := range matrixMoments {
				if c := (matrixCell{load, fault, moment}); c.senseless() == "" {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// fewCells cover every fault at two moments, one before the window and one in it, every moment, and
// every load.
func fewCells() []matrixCell {
	quick := []string{"closed", "open", "publish", "subscribers"}
	cells := []matrixCell{
		{"closed", "", ""}, {"open", "", ""}, {"subscribers", "", ""}, {"publish", "", ""},
		{"compare", "crashes", "mid-window"}, {"capacity", "hangs", "mid-window"}, {"ladder", "hangs", "before"},
		{"soak", "refuses", "mid-window"}, {"program", "crashes", "mid-window"},
	}
	for i, fault := range matrixFaults {
		for j := i % 2; j < len(matrixMoments); j += 2 {
			for k := range quick {
				c := matrixCell{quick[(i+j/2+k)%len(quick)], fault, matrixMoments[j]}
				if c.senseless() == "" {
					cells = append(cells, c)
					break
				}
			}
		}
	}
	return cells
}

// TestFaultMatrix makes targets fail in every known way, at every moment and under every
// load. dyno must report each failure. The whole takes some minutes:
//
//	go test ./cli -run TestFaultMatrix -matrix all -update -timeout 60m
//
// writes docs/reference/faults.md. In place of all it takes some of the loads, such as closed,open.
func TestFaultMatrix(t *testing.T) {
	cells := fewCells()
	switch {
	case *matrix == "all":
		cells = allCells(matrixLoads)
	case *matrix != "":
		cells = allCells(strings.Split(*matrix, ","))
	case testing.Short():
		t.Skip("-short: takes a minute")
	}
	outcomes := make([]matrixOutcome, len(cells))
	var running sync.WaitGroup
	next := make(chan int)
	for range matrixAtOnce {
		running.Go(func() {
			for i := range next {
				ctx, cancel := context.WithTimeout(t.Context(), 4*hangGuard)
				o, err := cells[i].settle(ctx, t.TempDir)
				cancel()
				if err != nil {
					t.Errorf("%s: %v", cells[i], err)
				} else if wrong := o.wrong(cells[i]); wrong != "" {
					t.Errorf("%s: %s; dyno said:\n%s", cells[i], wrong, o.output)
				}
				outcomes[i] = o
			}
		})
	}
	for i := range cells {
		next <- i
	}
	close(next)
	running.Wait()
	if *matrix == "" || !*update {
		return
	}
	page, err := os.ReadFile(matrixTable)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	found := map[matrixCell]matrixOutcome{}
	for i, c := range cells {
		found[c] = outcomes[i]
	}
	if err := os.WriteFile(matrixTable, []byte(faultTable(found, string(page))), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

// faultTable writes the matrix as Markdown. Loads that were not run keep the text of the
// page.
func faultTable(found map[matrixCell]matrixOutcome, page string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What dyno reports for targets that fail

Each of the %d cells is a run of dyno against a server that is healthy until it breaks. Exit code 0 or 4
is a gap: the run passed, or the wrong side was blamed. `+"`go test ./cli -run TestFaultMatrix -matrix all -update -timeout 60m`"+` runs all
cells again and writes this page. Continuous integration runs a few that cover all faults, moments and loads.

A cell shows the exit code (3 the target failed, 5 a regression, 99 a threshold), the findings about the target by
their names in run.json, the verdict on the throughput if two variants are compared, and the broken variant's
errors.ratio and availability. *threshold* is `+"`max < 100ms`"+`, which only the slow targets and the search
for capacity have, because a slow target answers everything.

The server breaks at the start (before), in the middle of the warm-up, in the middle of the window, and half a second
before its end. *half-hang*: every other connection hangs. *never-reads*: it accepts, and reads nothing more.
*slows*: everything that it sends comes 200 ms later, a hundred times its 2 ms.
`, len(allCells(matrixLoads)))
	for _, load := range matrixLoads {
		title := "\n## " + load + "\n"
		if !slices.ContainsFunc(allCells([]string{load}), func(c matrixCell) bool { return found[c].output != "" }) {
			_, old, _ := strings.Cut(page, title)
			old, _, _ = strings.Cut(old, "\n## ")
			if strings.TrimSpace(old) == "" {
				old = "\nThese cells are not on record yet.\n"
			}
			b.WriteString(title + old)
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| fault | %s |\n|%s\n", load, strings.Join(matrixMoments, " | "), strings.Repeat("---|", len(matrixMoments)+1))
		for _, fault := range matrixFaults {
			row := []string{fault}
			for _, moment := range matrixMoments {
				c := matrixCell{load, fault, moment}
				if c.senseless() != "" {
					row = append(row, "–")
					continue
				}
				row = append(row, found[c].cell())
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	b.WriteString("\n## Cells that make no sense (–)\n\n")
	var list []string
	for _, load := range matrixLoads {
		for _, fault := range matrixFaults {
			for _, moment := range matrixMoments {
				why := "- " + load + ": " + matrixCell{load, fault, moment}.senseless()
				if !strings.HasSuffix(why, ": ") && !slices.Contains(list, why) {
					list = append(list, why)
				}
			}
		}
	}
	b.WriteString(strings.Join(list, "\n") + "\n")
	return b.String()
}

// The page has every cell. No cell passes, and none blames the wrong side.
func TestFaultPage(t *testing.T) {
	page, err := os.ReadFile(matrixTable)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]int{}
	for _, m := range regexp.MustCompile(`\| \*\*(\d+)\*\*;`).FindAllStringSubmatch(strings.ReplaceAll(string(page), " | ", " || "), -1) {
		codes[m[1]]++
	}
	total := 0
	for code, n := range codes {
		if total += n; !slices.Contains([]string{strconv.Itoa(exit.Target), strconv.Itoa(exit.Regression), strconv.Itoa(exit.Threshold)}, code) {
			t.Errorf("%d cells with exit code %s", n, code)
		}
	}
	if want := len(allCells(matrixLoads)); total != want {
		t.Errorf("%d cells, want %d", total, want)
	}
}
