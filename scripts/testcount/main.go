// Testcount reads the output of go test -json and prints what a reader wants to know: a
// line per package, the output of failed tests, the reason of skipped ones, and last "N
// passed, N failed, N skipped". It exits 1 if anything failed. Tests that -short leaves out are
// many, and say so at the beginning of their reason: they are counted, not listed.
//
// A test with subtests counts as its subtests, unless it failed by itself. A package that
// fails without a failed test (it does not build, or crashed) counts as one failure.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

type test struct {
	result string // pass, fail, skip; empty while it runs
	parent bool
	failed bool // itself, or a subtest
	output []string
}

type pkg struct {
	tests  map[string]*test
	output []string // outside of tests
}

func main() {
	failed, err := count(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// count reports the events read from r, and returns the number of failures.
func count(r io.Reader, w io.Writer) (failed int, err error) {
	pkgs := map[string]*pkg{}
	var total tally
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text()) // a message of the go command itself, about a package it cannot load
			continue
		}
		if e.Action == "build-output" {
			fmt.Fprint(w, e.Output)
		}
		if e.Package == "" {
			continue
		}
		p := pkgs[e.Package]
		if p == nil {
			p = &pkg{tests: map[string]*test{}}
			pkgs[e.Package] = p
		}
		if e.Test == "" {
			switch e.Action {
			case "output":
				p.output = append(p.output, e.Output)
			case "pass", "fail", "skip":
				total.add(p.finish(w, e))
				delete(pkgs, e.Package)
			}
			continue
		}
		t := p.tests[e.Test]
		if t == nil {
			t = &test{}
			p.tests[e.Test] = t
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
				if up := p.tests[e.Test[:i]]; up != nil {
					up.parent = true
				}
			}
		}
		if t.result == "fail" {
			continue // with -count, one run that fails is a failure
		}
		switch e.Action {
		case "run": // perhaps once more
			t.result, t.output = "", nil
		case "output":
			t.output = append(t.output, e.Output)
		case "pass", "fail", "skip":
			t.result = e.Action
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	for name, p := range pkgs { // go test ended before they did
		total.add(p.finish(w, event{Action: "fail", Package: name}))
	}
	if total == (tally{}) {
		fmt.Fprintln(w, "no tests ran")
		total.failed = 1
	}
	if total.short > 0 {
		fmt.Fprintf(w, "%d of the skipped are left out by -short\n", total.short)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped)
	return total.failed, nil
}

// A tally is how many tests had which outcome. Those that -short left out are among the skipped.
type tally struct{ passed, failed, skipped, short int }

func (t *tally) add(u tally) {
	t.passed += u.passed
	t.failed += u.failed
	t.skipped += u.skipped
	t.short += u.short
}

// finish prints a package's outcome and returns how many of its tests passed,
// failed and were skipped.
func (p *pkg) finish(w io.Writer, e event) (n tally) {
	names := make([]string, 0, len(p.tests))
	for name := range p.tests {
		names = append(names, name)
	}
	// Subtests come before their parents, which then know whether one failed.
	slices.SortFunc(names, func(a, b string) int {
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		t := p.tests[name]
		switch {
		case t.result == "pass" && t.parent:
		case t.result == "pass":
			n.passed++
		case t.result == "skip":
			n.skipped++
			if why := reason(t.output); strings.Contains(why, ": -short: ") {
				n.short++
			} else {
				fmt.Fprintf(w, "skip  %s %s: %s\n", e.Package, name, why)
			}
		default: // failed, or never ended
			if !t.failed {
				n.failed++
			}
			fmt.Fprint(w, strings.Join(t.output, ""))
			for up := name; strings.Contains(up, "/"); {
				up = up[:strings.LastIndexByte(up, '/')]
				if pt := p.tests[up]; pt != nil {
					pt.failed = true
				}
			}
		}
	}
	if e.Action == "fail" {
		n.failed = max(n.failed, 1)
		fmt.Fprint(w, strings.Join(p.output, ""))
	}
	if len(p.tests) > 0 || e.Action == "fail" {
		fmt.Fprintf(w, "%-5s %-40s %7.1f s  %d passed, %d failed, %d skipped\n",
			map[string]string{"pass": "ok", "fail": "FAIL", "skip": "ok"}[e.Action], e.Package, e.Elapsed, n.passed, n.failed, n.skipped)
	}
	return n
}

// reason returns what a skipped test printed.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
