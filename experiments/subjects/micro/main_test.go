package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"dyno/internal/command"
	"dyno/internal/exit"
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
		{"filter --url http://127.0.0.1:1/ --duration 20ms", exit.Failed, "", []string{"micro: ", "10 of 10 requests failed"}},
		{"switch --unit fibre --duration -1s", exit.Usage, "", []string{
			"--unit: \"fibre\"", "--duration: \"-1s\"", "hint: micro switch --help lists the flags\n",
		}},
		{"switch --untied", exit.Usage, "", []string{"--untied", "hint: micro --help"}},
		{"pin more", exit.Usage, "", []string{"more", "hint: "}},
		{"jump", exit.Usage, "", []string{"jump", "hint: "}},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := command.Main(t.Context(), newCommand(), strings.Fields(c.args), &stdout, &stderr); code != c.code {
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
	if code := command.Main(gone, newCommand(), []string{"switch"}, &stdout, &stderr); code != exit.Interrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d, standard output %q", code, &stdout)
	}
}
