package cli

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"dyno/internal/exit"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// A run that does not begin leaves the file of its results as it was; one that does replaces it.
func TestResultsReplaceTheFile(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	file, taken := filepath.Join(dir, "result.json"), filepath.Join(dir, "taken")
	write(t, taken, "no run folder")
	load := func(to string, more ...string) (code int, stderr string) {
		var out, err bytes.Buffer
		args := append([]string{"http", "-q", "-n", "5", "-c", "1", "--json", to}, more...)
		return Main(t.Context(), append(args, "http://"+server.Addr().String()), nil, &out, &err), err.String()
	}
	for _, content := range []string{"", "old"} {
		if content != "" {
			write(t, file, content)
		}
		if code, stderr := load(file, "-o", taken); code == exit.Done {
			t.Fatalf("a run in a folder that is a file: %s", stderr)
		}
		if got, err := os.ReadFile(file); string(got) != content || errors.Is(err, os.ErrNotExist) != (content == "") {
			t.Errorf("after a run that did not begin: %q, %v; want %q", got, err, content)
		}
	}
	if code, stderr := load(file); code != exit.Done {
		t.Fatalf("%d: %s", code, stderr)
	}
	if got, err := os.ReadFile(file); !bytes.HasPrefix(got, []byte("{")) || err != nil {
		t.Errorf("after a run: %q, %v", got, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 2 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
	before := server.Traffic().Received
	for to, want := range map[string]string{
		dir:                               "is a directory",
		filepath.Join(dir, "no", "x"):     "no such file or directory",
		filepath.Join(taken, "x"):         "not a directory",
		"/proc/self/dyno-results":         "/proc/self/dyno-results",
		filepath.Join(file, "..", "\x00"): "invalid argument",
	} {
		if code, stderr := load(to); code != exit.Usage || !strings.Contains(stderr, "--json: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; want %q", to, code, stderr, want)
		}
	}
	if n := server.Traffic().Received - before; n != 0 {
		t.Errorf("%d requests were sent although their results cannot be written", n)
	}
}

// A standard output that cannot be written to is reported before the run.
func TestResultsNeedAnOutput(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var stderr bytes.Buffer
	if code := Main(t.Context(), []string{"http", "-n", "1", "--json", "-", "127.0.0.1:1"}, nil, null, &stderr); code != exit.Usage || !strings.Contains(stderr.String(), "for reading only") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}

// Failed requests of a run that ends well are reported.
func TestFailuresArePrinted(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	for requests, want := range map[string]string{"30": "dyno: 33.3 % of the requests failed, 10 of 30\n", "2": ""} {
		n.Store(0)
		var out, errs bytes.Buffer
		code := Main(t.Context(), []string{"http", "-q", "-n", requests, "-c", "1", server.URL}, nil, &out, &errs)
		if code != exit.Done || !strings.HasPrefix(errs.String(), want) || want == "" && errs.Len() > 0 {
			t.Errorf("exit code %d, %s; want %q", code, &errs, want)
		}
	}
}

// A gate that found nothing says so when it could not have found what it is for.
func TestImpreciseGateIsMarked(t *testing.T) {
	for _, c := range []struct {
		comparison rundir.Comparison
		regression bool
		err        error
		want       string
	}{
		{rundir.Comparison{Verdict: rundir.Inconclusive, Detectable: new(0.2341)}, true, nil,
			"dyno: throughput of b: could only have found a regression of ≥ 23.4 %, and the margin is 2 %\n"},
		{rundir.Comparison{Verdict: rundir.Inconclusive}, true, nil, "dyno: throughput of b: the rounds do not tell which regression could have been found; use more of them\n"},
		{rundir.Comparison{Verdict: rundir.Inconclusive, Detectable: new(0.2341)}, false, nil, ""},
		{rundir.Comparison{Verdict: rundir.Inconclusive, Detectable: new(0.2341)}, true, gate{}.pass([]string{"another"}, nil), ""},
		{rundir.Comparison{Verdict: rundir.Inconclusive, Detectable: new(0.01)}, true, nil, ""},
		{rundir.Comparison{Verdict: rundir.Equivalent, Detectable: new(0.2341)}, true, nil, ""},
	} {
		c.comparison.Metric, c.comparison.Variant, c.comparison.Base, c.comparison.Primary = "throughput", "b", "a", true
		run := rundir.Run{Plan: rundir.Plan{Margin: 0.02}, Comparisons: []rundir.Comparison{c.comparison}}
		var errs bytes.Buffer
		if (&app{stderr: &errs}).remark(&run, gate{regression: c.regression}, c.err); errs.String() != c.want {
			t.Errorf("%+v: %q, want %q", c, &errs, c.want)
		}
	}
}

// A gate says that most trials were disturbed, whatever it found.
func TestDisturbedGateIsMarked(t *testing.T) {
	run := rundir.Run{Trials: []rundir.Examined{{Number: 1, Disturbed: true}}, Flags: []rundir.Flag{{Kind: checks.FlagSteal, Trial: 1, Disturbs: true}}}
	for regression, want := range map[bool]string{true: "dyno: the trial was disturbed: the host took CPUs\n", false: ""} {
		var errs bytes.Buffer
		if (&app{stderr: &errs}).remark(&run, gate{regression: regression}, nil); errs.String() != want {
			t.Errorf("regression %v: %q, want %q", regression, &errs, want)
		}
	}
}

// With the flag for it, a comparison that could not have found a regression is an error.
func TestInconclusiveGate(t *testing.T) {
	for verdict, want := range map[string]int{rundir.Inconclusive: exit.Regression, rundir.Equivalent: exit.Done, rundir.Better: exit.Done} {
		run := rundir.Run{Valid: true, Plan: rundir.Plan{Margin: 0.02}, Comparisons: []rundir.Comparison{
			{Metric: "throughput", Variant: "b", Base: "a", Primary: true, Verdict: verdict, Detectable: new(0.2341)},
		}}
		code := exit.Done
		err := judged(&run, gate{inconclusive: true})
		if err != nil {
			code, _ = classify(err)
		}
		if code != want || want == exit.Regression && err.Error() != "inconclusive: throughput of b: could only have found a regression of ≥ 23.4 %, and the margin is 2 %" {
			t.Errorf("%s: exit code %d, %v", verdict, code, err)
		}
	}
}

func TestWarningsAreAnnotations(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	t.Setenv("GITHUB_ACTIONS", "true")
	a.warn("of one")
	t.Setenv("GITHUB_ACTIONS", "")
	a.warn("of another")
	if want := "::warning title=dyno::of one\ndyno: of another\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}
