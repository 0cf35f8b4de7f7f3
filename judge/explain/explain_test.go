package explain

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// A measured trial belongs to a folder that a test makes.
type measured struct {
	variant, purpose string
	round            int
	cpu              float64          // seconds per request
	samples          map[string]int64 // by stack, the leaf first; nil: no profile
	left             *int64           // descriptors
}

// folder writes a run of base and variant.
func folder(t *testing.T, plan rundir.Plan, trials []measured) *rundir.Folder {
	t.Helper()
	dir := t.TempDir() + "/run"
	run := &rundir.Run{SchemaVersion: rundir.SchemaVersion, Name: "made", StartedAt: time.Now(), Plan: plan, TrialsPlanned: len(trials), Valid: true}
	w, err := rundir.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range trials {
		x := &rundir.Trial{
			SchemaVersion: rundir.SchemaVersion, Number: i + 1, Round: m.round, Variant: m.variant, Purpose: m.purpose,
			StartedAt: time.Now(), WindowSeconds: 1, Complete: true, Flags: []rundir.Flag{},
			Counts: rundir.Counts{CompletedInWindow: 1000},
		}
		all := 1000 * m.cpu
		x.Target.CPUSecondsPerRequest, x.Target.CPUSeconds, x.Target.DescriptorsLeft = &m.cpu, &all, m.left
		f, err := w.Trial(x.Number, x.Variant)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Begin(x); err != nil {
			t.Fatal(err)
		}
		if m.samples != nil {
			x.Profiles = []rundir.Profile{{Kind: "cpu", File: "cpu.pb.gz", By: "sampling", Seconds: 1}}
			file, err := f.Create("cpu.pb.gz")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(sampled(m.samples).Write(file), file.(io.Closer).Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Finish(x); err != nil {
			t.Fatal(err)
		}
	}
	run.Complete = true
	if err := w.Finish(run); err != nil {
		t.Fatal(err)
	}
	f, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sampled makes a profile of samples, a millisecond each.
func sampled(samples map[string]int64) *pprof.Profile {
	p := &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	m := &pprof.Mapping{ID: 1, File: "/bin/server"}
	p.Mapping = []*pprof.Mapping{m}
	for stack, n := range samples {
		s := &pprof.Sample{Value: []int64{n, n * 1e6}}
		for name := range strings.FieldsSeq(stack) {
			f := &pprof.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &pprof.Location{ID: f.ID, Mapping: m, Line: []pprof.Line{{Function: f}}}
			p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location, l), append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// made is a run in which the variant has lost a function and got a smaller one.
func made(t *testing.T, rounds int) *rundir.Folder {
	var trials []measured
	for r := 1; r <= rounds; r++ {
		noise := 1 + 0.002*float64(r%3)
		wobble := int64(r % 2)
		trials = append(trials,
			measured{variant: "a", round: r, cpu: 20e-6 * noise},
			measured{variant: "b", round: r, cpu: 16e-6 * noise},
			measured{variant: "a", purpose: rundir.PurposeProfile, round: r, cpu: 20.2e-6 * noise, left: new(int64),
				samples: map[string]int64{"main.serve": 502 - 4*wobble, "main.slow": 298 + 4*wobble, "runtime.mallocgc": 200}},
			measured{variant: "b", purpose: rundir.PurposeProfile, round: r, cpu: 16.2e-6 * noise, left: ptr(int64(3)),
				samples: map[string]int64{"main.serve": 623 + 2*wobble, "main.fast": 128 - 2*wobble, "runtime.mallocgc": 249}})
	}
	plan := rundir.Plan{
		Protocol: "tcp", Loop: "closed", Base: "a", Profile: &rundir.PlanProfile{Kinds: []string{"cpu", "mutex"}, Rounds: rounds},
		Variants: []rundir.PlanVariant{{Name: "a", Loop: "closed"}, {Name: "b", Loop: "closed"}},
	}
	return folder(t, plan, trials)
}

func TestExplain(t *testing.T) {
	e, err := Explain(made(t, 8), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	a := e.CPU
	if a == nil || a.Rounds != 8 || a.ProfileRounds != 8 || a.Accounted == nil || math.Abs(*a.Accounted-1) > 0.02 ||
		math.Abs(*a.Measured.Estimate+4e-6) > 0.05e-6 || math.Abs(*a.Leftover.Estimate-(*a.Measured.Estimate-*a.Profiled.Estimate)) > 1e-10 {
		t.Fatalf("%+v", a)
	}
	// A thousand samples of a millisecond, of 20.2 ms of CPU time.
	if got := a.Coverage["a"]; math.Abs(got-1/0.0202) > 0.5 {
		t.Errorf("coverage %v", got)
	}
	if len(e.Tables) != 1 || e.Tables[0].Kind != "cpu" {
		t.Fatalf("%+v", e.Tables)
	}
	f := e.Tables[0].Functions
	if f[0].Name != "main.slow" || !f[0].Ranked || f[1].Name != "main.fast" || !f[1].Ranked || f[2].Ranked || f[3].Ranked {
		t.Errorf("%+v", f)
	}
	if sum := *f[0].Change.Estimate + *f[1].Change.Estimate; math.Abs(sum-a.Ranked) > 1e-10 {
		t.Errorf("ranked %v, in sum %v", a.Ranked, sum)
	}
	if f[0].Group == "" || f[0].Group == f[3].Group && f[0].Group == f[2].Group {
		t.Errorf("groups %q, %q, %q", f[0].Group, f[2].Group, f[3].Group)
	}
	if len(e.Notes) != 1 || e.Notes[0].Values["profile"] != "mutex" {
		t.Errorf("notes %v", e.Notes)
	}
	if len(e.Leftover) != 1 || e.Leftover[0] != (Leftover{Variant: "b", Kind: "descriptors", Count: 3}) {
		t.Errorf("%+v", e.Leftover)
	}
}

// A function is named with the caller that most of its change belongs to: the nearest of the target's
// own module.
func TestExplainCallers(t *testing.T) {
	var trials []measured
	for r := 1; r <= 2; r++ {
		for variant, more := range map[string]int64{"a": 0, "b": 300} {
			trials = append(trials, measured{variant: variant, round: r, cpu: 20e-6}, measured{variant: variant, purpose: rundir.PurposeProfile, round: r, cpu: 20e-6, samples: map[string]int64{
				"main.serve": 1000 - more, "crypto/sha256.block crypto/sha256.Sum256 main.serve": 100,
				"crypto/sha256.block crypto/sha256.Sum256 example.org/app/sign.Extra main.serve": 1 + more,
				"runtime.mallocgc main.serve": 100 + more/3, "runtime.mallocgc example.org/app/sign.Extra": 100 + more/3,
			}})
		}
	}
	plan := rundir.Plan{
		Protocol: "tcp", Loop: "closed", Base: "a", Profile: &rundir.PlanProfile{Kinds: []string{"cpu"}, Rounds: 2},
		Variants: []rundir.PlanVariant{{Name: "a", Loop: "closed"}, {Name: "b", Loop: "closed"}},
	}
	f := folder(t, plan, trials)
	for _, x := range f.Trials {
		for i := range x.Profiles {
			x.Profiles[i].Module = "example.org/app"
		}
	}
	e, err := Explain(f, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range e.Tables[0].Functions {
		got[i.Name] = i.Caller
	}
	want := map[string]string{"main.serve": "", "crypto/sha256.block": "example.org/app/sign.Extra", "runtime.mallocgc": ""} // the last is two callers' in halves
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The account leaves out rounds with a trial without CPU time.
func TestExplainLeavesOutRounds(t *testing.T) {
	f := made(t, 8)
	for _, x := range f.Trials {
		if x.Purpose == "" && (x.Round == 2 && x.Variant == "a" || x.Round == 5 && x.Variant == "b") {
			x.Target.CPUSecondsPerRequest = nil
		}
	}
	e, err := Explain(f, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if e.CPU.Rounds != 6 || e.CPU.LeftOut != 2 || len(e.CPU.Measured.Values) != 6 {
		t.Errorf("%+v", e.CPU)
	}
}

// A profile that is not there is missing for the reason that its observer gave, however that
// writes its name.
func TestWhyAProfileIsMissing(t *testing.T) {
	said := texts.New("unavailable.profile", "taken", "off-CPU").With("why", texts.Verbatim("no BTF"))
	x := &rundir.TrialFolder{Trial: rundir.Trial{
		Unavailable: []rundir.Message{texts.Verbatim("profile heap: 404"), said, texts.Verbatim("profile cpu samples cannot be taken here: EPERM")},
	}}
	for kind, want := range map[string]string{waitKind: said.English(), "heap": "profile heap: 404", cpuKind: "profile cpu samples cannot be taken here: EPERM", "mutex": ""} {
		if got := why(x, kind).English(); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// With subscribers, the cost of an event is explained.
func TestExplainPer(t *testing.T) {
	f := made(t, 2)
	for _, want := range []string{"request", "event"} {
		e, err := Explain(f, "a", "b")
		if err != nil || e.Per != want {
			t.Errorf("per %q, %v, want %s", e.Per, err, want)
		}
		f.Run.Plan.Variants[1].Subscribers = 10
	}
}

func TestExplainWithout(t *testing.T) {
	f := made(t, 8)
	_, err := Explain(f, "a", "c")
	var missing *NotFoundError
	if !errors.As(err, &missing) || missing.Variant != "c" || fmt.Sprint(missing.Have) != "[a b]" {
		t.Errorf("a variant that is not there: %v", err)
	}

	// One round claims nothing.
	e, err := Explain(made(t, 1), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if e.CPU.Accounted != nil || e.CPU.Measured.Low != nil || e.Tables[0].Functions[0].Ranked || e.Resources[0].Changed {
		t.Errorf("%+v", e)
	}

	// Without profiles there are still resources.
	plain := folder(t, rundir.Plan{Protocol: "tcp", Loop: "closed", Variants: []rundir.PlanVariant{{Name: "a", Loop: "closed"}, {Name: "b", AliasOf: "a", Loop: "closed"}}},
		[]measured{{variant: "a", round: 1, cpu: 1e-6}, {variant: "b", round: 1, cpu: 2e-6}})
	if e, err = Explain(plain, "a", "b"); err != nil || e.CPU != nil || len(e.Resources) == 0 || !e.Control || len(e.Notes) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	// Nothing at all of one of them is an error.
	plain.Trials = plain.Trials[:1]
	if _, err = Explain(plain, "a", "b"); err == nil {
		t.Error("explained a variant that was not measured")
	}
}

// Comparison and explanation agree about the CPU time per request: the figures, the interval, and
// whether anything has changed.
func TestExplainSaysWhatCompareSays(t *testing.T) {
	for verdict, changed := range map[string]bool{rundir.Better: true, rundir.Inconclusive: false} {
		f := made(t, 8)
		ratio := rundir.Estimate{Estimate: new(0.8), Low: new(0.7), High: new(1.1), Values: []float64{0.75, 0.85}, Confidence: 0.986}
		if changed {
			*ratio.High = 0.9
		}
		f.Run.Comparisons = []rundir.Comparison{{Base: "a", Variant: "b", Metric: rundir.MetricCPU, Ratio: ratio, Figure: new(16e-6), BaseFigure: new(20e-6), P: new(0.001), Verdict: verdict}}
		e, err := Explain(f, "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		a, r := e.CPU, e.Resources[0]
		for _, c := range []rundir.Estimate{a.Measured, r.Change} {
			if math.Abs(*c.Estimate+4e-6) > 1e-12 || math.Abs(*c.Low+6e-6) > 1e-12 || math.Abs(*c.High-20e-6*(*ratio.High-1)) > 1e-12 || c.Confidence != 0.986 {
				t.Errorf("%s: %+v", verdict, c)
			}
		}
		if a.Base != 20e-6 || a.Variant != 16e-6 || r.Base != a.Base || r.Variant != a.Variant || r.Changed != changed || (a.Accounted != nil) != changed {
			t.Errorf("%s: %+v, %+v", verdict, a, r)
		}
	}
}
