package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Each program prints one line of JSON. Faults of the command line have a code of their own and a hint.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string   // what it begins with
		stderr []string // what it holds
	}{
		{"switch --duration 20ms", 0, `{"context_switches_per_handoff":`, nil},
		{"stack --unit thread --units 20", 0, "{", nil},
		{"lock --kind sharded --goroutines 2 --reads 0.9 --duration 20ms", 0, `{"ops":`, nil},
		{"io --model multiplexing --connections 3 --duration 20ms", 0, "{", nil},
		{"buffers", 0, "{", nil},
		{"filter --url http://127.0.0.1:1/ --duration 20ms", failed, "", []string{"micro: ", "10 of 10 requests failed"}},
		{"switch --unit fibre --duration -1s", misused, "", []string{
			"micro: unit: \"fibre\": want one of goroutine, thread\n", "duration: -1s: want more than 0", "hint: micro switch --help lists the flags\n",
		}},
		{"switch --untied", misused, "", []string{"--untied", "hint: micro switch --help"}},
		{"pin more", misused, "", []string{"more", "hint: micro pin --help"}},
		{"jump", misused, "", []string{"jump", "hint: micro --help"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, &stderr)
			}
			if out := stdout.String(); !strings.HasPrefix(out, c.stdout) || strings.Count(out, "\n") != min(len(c.stdout), 1) {
				t.Errorf("standard output %q, want one line that begins with %q", out, c.stdout)
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("standard error %q, want %q in it", &stderr, want)
				}
			}
		})
	}
}

// A program that is interrupted has no figures.
func TestRunInterrupted(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(gone, []string{"switch"}, &stdout, &stderr); code != interruption || stdout.Len() > 0 {
		t.Errorf("exit code %d, standard output %q", code, &stdout)
	}
}
