package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"dyno/internal/settings"
)

// TestReread: a configuration that is read again keeps the flags, and may change only fields that need no restart.
func TestReread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "control.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, scratch := range []bool{false, true} {
		first := Defaults()
		s := settings.New(&first)
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.AddFlags(f)
		args := []string{"--config", file, "--listen", "127.0.0.1:0", "--burst", "7"}
		if scratch {
			args = append(args, "--scratch")
		} else {
			args = append(args, "--data", "d")
		}
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		write("rate: 1\n")
		s.Read()
		if err := first.complete(s.Given); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(first.Check); err != nil {
			t.Fatal(err)
		}
		if scratch {
			first.Store.Dir = "made"
		}
		for text, want := range map[string]string{
			"rate: 1\n":                               "",
			"rate: 5\nburst: 9\nmax_configs: 1\n":     "",
			"max_config: 1\n":                         "control.yaml: max_config: needs",
			"rate: -1\n":                              "rate: -1",
			"rates: 1\n":                              "rates: unknown field",
			"rate: 5\nheartbeat: 3s\n":                "control.yaml: heartbeat: needs a restart to change",
			"listen: 127.0.0.1:9\ndns: 127.0.0.1:9\n": "control.yaml: dns: needs", // the flag wins
		} {
			write(text)
			next, err := reread(s, first)
			switch {
			case want != "":
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v, want %q", text, err, want)
				}
			case err != nil || next.Burst != 7 || next.Store.Dir != first.Store.Dir || next.Rate < 1:
				t.Errorf("%q: %+v, %v", text, next, err)
			}
		}
	}
}
