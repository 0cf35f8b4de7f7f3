package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("PAIR_TEST_BURN") == "" {
		os.Exit(m.Run())
	}
	// As a subject: use some CPU, then say that 7 things were done.
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		continue
	}
	fmt.Println("done: 7")
	os.Exit(3)
}

func TestRun(t *testing.T) {
	t.Setenv("PAIR_TEST_BURN", "1")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	subject := func(name, accept string) string {
		return fmt.Sprintf(`{"name": %q, "run": [%q], "count": "sed -n 's/done: //p'", "accept": [%s]}`, name, exe, accept)
	}
	plan := `{"title": "T", "key": "k", "unit": "things", "rounds": 2, "base": "a", "subjects": [%s, %s]}`

	var out, log strings.Builder
	in := fmt.Sprintf(plan, subject("a", "3"), subject("b", "3"))
	if err := run(context.Background(), strings.NewReader(in), &out, &log); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"T\n", "things/CPU-s", "  a", "  b", "1.000", "\nresult: k.a ", "\nresult: k.b ", "\nresult: k.b.ratio "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	var order []string
	for line := range strings.Lines(log.String()) {
		order = append(order, strings.Fields(line)[2])
	}
	if got := strings.Join(order, " "); got != "a b b a" {
		t.Errorf("order %q, want turns, another first each round", got)
	}

	// The CPU time may be what the subject says it is: 7 things in 0.5 s.
	out.Reset()
	timed := strings.Replace(subject("a", "3"), `"accept"`, `"cpu": "echo 0.5", "accept"`, 1)
	if err := run(context.Background(), strings.NewReader(fmt.Sprintf(plan, timed, strings.Replace(timed, `"a"`, `"b"`, 1))), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nresult: k.a 14\n") || !strings.Contains(out.String(), "\nresult: k.b.ratio 1.000 (1.000 … 1.000)\n") {
		t.Errorf("14 a second are not in:\n%s", &out)
	}

	// What is counted may be a rate already: it is divided by no time.
	out.Reset()
	if err := run(context.Background(), strings.NewReader(fmt.Sprintf(strings.Replace(plan, `"rounds"`, `"rates": true, "rounds"`, 1), timed, strings.Replace(timed, `"a"`, `"b"`, 1))), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nresult: k.a 7\n") || !strings.Contains(out.String(), "things/s") || strings.Contains(out.String(), "CPU") {
		t.Errorf("7 a second are not in:\n%s", &out)
	}

	in = fmt.Sprintf(plan, subject("a", "3"), subject("b", "4"))
	if err := run(context.Background(), strings.NewReader(in), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "b: exit status 3") {
		t.Errorf("an exit code nobody accepts: %v", err)
	}
}

func TestFaultyPlans(t *testing.T) {
	for in, want := range map[string]string{
		`{"rouns": 1}`: `unknown field "rouns"`,
		`{}`:           "key: \"\": must be a word\nrounds: 0: must be at least 1\nbase: \"\"",
		`{"rounds": 1, "base": "a", "subjects": [{"name": "a"}]}`:                                                  `subject "a": needs`,
		`{"rounds": 1, "base": "a", "services": [{}], "subjects": [{"name":"a","run":["true"],"count":"echo 1"}]}`: "needs run and ready",
		`{"key": "k", "rounds": 1, "base": "a", "subjects": [{"name":"a","run":["true"],"count":"echo nothing"}]}`: `count: "nothing": want a number above 0`,
		`{"key": "k", "rounds": 1, "base": "a", "services": [{"run":["true"],"ready":"127.0.0.1:1"}],
		  "subjects": [{"name":"a","run":["true"],"count":"echo 1"}]}`: "true: ended before it was ready",
	} {
		if err := run(t.Context(), strings.NewReader(in), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("12 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0 20 0 1 0")
	if err != nil || got != 1680*time.Millisecond {
		t.Errorf("%v, %v; want 1.68 s", got, err)
	}
	if _, err := parseStat("12 (a) S 1"); err == nil {
		t.Error("a short line is read")
	}
	if self, err := cpuOf(os.Getpid()); err != nil || self < 0 {
		t.Errorf("own CPU time: %v, %v", self, err)
	}
}

func TestMedian(t *testing.T) {
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 || !math.IsNaN(median(nil)) {
		t.Error("median")
	}
}
