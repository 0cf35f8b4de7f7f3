// Package measure measures services and compares measurements from Go programs, as the command dyno does.
//
// [Load] loads one server with HTTP requests. [Run] carries out an experiment, and starts the servers if the
// experiment says how. [Open] reads a run folder, also one that another program made. [Compare] compares two
// samples of any origin.
//
// This is the one package of the module whose API is kept. All others may change with each version.
//
// Times are in seconds and sizes in bytes, as in run.json. Errors name the field at fault and what to write instead. All
// functions may be called by several goroutines, but loads at the same time disturb each other.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"dyno/host/child"
	"dyno/internal/buildinfo"
	"dyno/judge/stat"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/lab/trial"
	"dyno/report"
	"dyno/report/export"
	"dyno/results/rundir"
)

// HandleChild carries out what dyno starts this program for again: it supervises the processes of a target, or carries a
// part of a load. Then it ends the program. A program whose experiments start servers calls it first in main.
func HandleChild() {
	if code, ran := child.Run(os.Args[1:], trial.Roles()...); ran {
		os.Exit(code)
	}
}

// A Request is what a load repeats, and how.
type Request struct {
	URL    string
	Method string // GET, or POST with a body, if it is empty
	Header http.Header
	Body   string

	// Connections of a closed loop each send the next request when the one before is answered; 0: 50.
	Connections int
	// Rate is that of an open loop, in requests per second, whether the server keeps up or not; 0: a closed loop.
	Rate float64

	Warmup time.Duration // before the window; its requests do not count
	Window time.Duration // 0: 10 s
}

// Load loads a server that runs already and returns what it measured. It needs no folder.
func Load(ctx context.Context, r Request) (result *Result, err error) {
	dir, err := os.MkdirTemp("", "dyno")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	text, err := r.experiment()
	if err != nil {
		return nil, err
	}
	return run(ctx, "load.yaml", text, filepath.Join(dir, "run"), true)
}

// experiment returns the experiment that sends this request.
func (r *Request) experiment() ([]byte, error) {
	type mapping = map[string]any
	literal := func(text string) string { return strings.ReplaceAll(text, "{{", plan.QuotedBraces) } // no template
	request := mapping{}
	if r.Method != "" {
		request["method"] = r.Method
	}
	if r.Body != "" {
		request["body"] = literal(r.Body)
	}
	var headers yaml.MapSlice
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		headers = append(headers, yaml.MapItem{Key: name, Value: literal(strings.Join(r.Header[name], ", "))}) // RFC 9110, section 5.3
	}
	if headers != nil {
		request["headers"] = headers
	}
	load := mapping{"request": request, "warmup": r.Warmup.String(), "window": "10s"}
	if r.Window != 0 {
		load["window"] = r.Window.String()
	}
	connections := r.Connections
	if connections == 0 && r.Rate == 0 {
		connections = 50
	}
	loop := mapping{}
	if connections != 0 {
		loop["connections"] = connections
	}
	if r.Rate != 0 {
		loop["rate"] = r.Rate
		load["open"] = loop
	} else {
		load["closed"] = loop
	}
	return yaml.Marshal(mapping{
		"name": "load", "target": mapping{"protocol": "http", "url": literal(r.URL)}, "load": load,
		"design": mapping{"rounds": 1, "quiet_wait": 0},
	})
}

// Run carries out an experiment, which is the text of a file as dyno run takes it, and judges it. The folder is
// created. With an error there may be a result, of what was measured before. No threshold ends a run early, as it does
// that of a command: cancel the context instead.
func Run(ctx context.Context, experiment []byte, folder string) (*Result, error) {
	return run(ctx, "experiment", experiment, folder, false)
}

func run(ctx context.Context, name string, text []byte, folder string, temporary bool) (*Result, error) {
	e, err := planfile.ParseWithFiles(name, text, planfile.Options{Expressions: expr.Checks})
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ran := trial.Run(ctx, e, trial.Options{
		Dir: folder, Program: program, Command: os.Args[:1], Version: buildinfo.Build(),
		Temporary: temporary, Referee: verdict.NewReferee(),
	})
	if notStarted := (*trial.NotStartedError)(nil); errors.As(ran, &notStarted) {
		return nil, ran // what is in the folder is another run
	}
	result, err := Open(folder)
	if ran != nil {
		return result, ran
	}
	return result, err
}

// Open reads a run folder, and judges what was not judged yet.
func Open(folder string) (*Result, error) {
	f, err := verdict.Open(folder)
	if err != nil {
		return nil, err
	}
	return ResultOf(f), nil
}

// ResultOf returns the result that a folder holds, for the command line.
func ResultOf(f *rundir.Folder) *Result { return &Result{f} }

// A Result is a judged run.
type Result struct{ folder *rundir.Folder }

// Variants returns the names of the variants, in the order of the experiment. A load has one, "default".
func (r *Result) Variants() (names []string) {
	for i := range r.folder.Run.Variants {
		names = append(names, r.folder.Run.Variants[i].Name)
	}
	return names
}

// A Figure is a measured value. Without an interval, as of a single trial, Low and High are NaN.
type Figure struct{ Value, Low, High float64 }

// Figure returns a metric of a variant, such as throughput, response.p99, errors.ratio or
// target.cpu_per_request. docs/reference/metrics.md lists all metrics with their units. Figure reports whether
// the run has the metric.
func (r *Result) Figure(variant, metric string) (f Figure, known bool) {
	return figureOf(r.folder.Run.Variant(variant).Figure(metric))
}

func figureOf(e rundir.Estimate) (f Figure, known bool) {
	orNaN := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	return Figure{orNaN(e.Estimate), orNaN(e.Low), orNaN(e.High)}, e.Estimate != nil
}

// A Comparison is how a variant differs from the base in a metric.
type Comparison struct {
	Base, Variant, Metric string
	Control               bool   // both are the base, so there is no difference to find
	Ratio                 Figure // of the variant to the base
	Verdict               string // better, worse, equivalent, inconclusive or invalid; empty of a single round
}

// Comparisons returns all comparisons of the run.
func (r *Result) Comparisons() (all []Comparison) {
	for i := range r.folder.Run.Comparisons {
		c := &r.folder.Run.Comparisons[i]
		ratio, _ := figureOf(c.Ratio)
		all = append(all, Comparison{c.Base, c.Variant, c.Metric, c.Role == rundir.RoleControl, ratio, c.Verdict})
	}
	return all
}

// Write prints the whole report as text.
func (r *Result) Write(w io.Writer) error { return report.Text(w, r.folder) }

// WriteJSON writes run.json, whose JSON Schema is in the repository.
func (r *Result) WriteJSON(w io.Writer) error { return export.JSON(w, &r.folder.Run) }

// A Change says how the values of two samples differ that were measured in the same rounds.
type Change struct {
	Ratio   Figure  // of the geometric means, after to before
	P       float64 // two-sided, for a ratio of one
	Verdict string  // higher, lower, equivalent or inconclusive
}

// Compare compares two samples in pairs: value i of both was measured in the same round. It needs two rounds,
// and values above zero. The ratio has an interval of 95 %, by Student's t on the logarithms. If the interval
// holds 1, the samples may be equivalent: the interval of 90 % is then within the margin (Schuirmann 1987). The
// margin is a share such as 0.02.
func Compare(before, after []float64, margin float64) (Change, error) {
	if len(before) != len(after) {
		return Change{}, fmt.Errorf("%d values before and %d after: want one of both from each round", len(before), len(after))
	}
	if !stat.AllPositive(before) || !stat.AllPositive(after) {
		return Change{}, errors.New("a value is not above zero: ratios need values above zero")
	}
	logs := stat.Logs(after)
	for i, x := range stat.Logs(before) {
		logs[i] -= x
	}
	wide, err := stat.PairedMean(logs, 0.95)
	if err != nil {
		return Change{}, err
	}
	narrow, err := stat.PairedMean(logs, 0.90)
	if err != nil {
		return Change{}, err
	}
	ratio := func(i stat.Interval) stat.Interval {
		return stat.Interval{Low: math.Exp(i.Low), High: math.Exp(i.High)}
	}
	c := Change{Figure{math.Exp(wide.Estimate), ratio(wide.Interval).Low, ratio(wide.Interval).High}, wide.P, ""}
	switch outcome := stat.Judge(ratio(wide.Interval), ratio(narrow.Interval), margin, stat.HigherIsBetter); outcome {
	case stat.Better:
		c.Verdict = "higher"
	case stat.Worse:
		c.Verdict = "lower"
	default:
		c.Verdict = outcome.String()
	}
	return c, nil
}
