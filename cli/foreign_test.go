package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"dyno/cli/foreign"
	"dyno/internal/exit"
)

// commandNamed returns a command of dyno's.
func commandNamed(t *testing.T, name string) *cobra.Command {
	t.Helper()
	cmd, _, err := newApp(nil, io.Discard, io.Discard).root().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// hintOf returns the error that a command has for that of its flags, and its hint.
func hintOf(t *testing.T, cmd *cobra.Command, err error, args ...string) string {
	t.Helper()
	var f *exit.Failure
	if !errors.As(foreign.Refuse(cmd, err, args), &f) {
		t.Fatalf("%v has no exit code", err)
	}
	return f.Error() + "\n" + f.Hint
}

// A flag of another tool's is answered by a flag that dyno has, or by what to do instead.
func TestForeignFlags(t *testing.T) {
	for _, f := range foreign.Flags() {
		if f.Tools == "" || f.Means == "" || f.Ours == "" && f.Remark == "" {
			t.Errorf("%+v: want tools, a meaning, and a flag of ours or a remark", f)
		}
		has := func(command string) bool { return commandNamed(t, command).Flags().Lookup(f.Ours) != nil }
		if f.Ours != "" && f.Remark == "" && !has("http") && !has("grpc") {
			t.Errorf("-%s: neither dyno http nor dyno grpc has --%s", f.Names, f.Ours)
		}
	}
	for _, from := range foreign.Tools() {
		cmd := commandNamed(t, from.Command)
		for name := range strings.FieldsSeq(from.Same) {
			if cmd.Flags().Lookup(name) == nil && (len(name) > 1 || cmd.Flags().ShorthandLookup(name) == nil) {
				t.Errorf("%s: dyno %s has no flag %s", from.Name, from.Command, name)
			}
		}
		for name := range from.Defaults {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s: dyno %s has no flag --%s", from.Name, from.Command, name)
			}
		}
	}
}

func TestFlagHint(t *testing.T) {
	for _, c := range []struct {
		command string
		args    string
		want    string // in the hint
	}{
		{"http", "-d 5s", "did you mean --duration (-z) for the time, as in wrk and k6; or --body for the body, as in hey, oha and ghz?"},
		{"tcp", "-d 5s", "did you mean --duration (-z) for the time, as in wrk and k6?"},
		{"http", "-t 2", "--workers for threads, as in wrk and h2load; or --timeout "},
		{"http", "-u 10", "did you mean --connections (-c) for virtual users, as in k6"},
		{"http", "-u ann:hunter22", "did you mean --basic-auth for a user and a password, as in curl?"},
		{"http", "-uann:hunter22", "did you mean --basic-auth for a user and a password, as in curl?"},
		{"http", "-u", "did you mean --connections (-c) for virtual users, as in k6; or --basic-auth for"},
		{"http", "-A ann:hunter22", "did you mean --basic-auth for a user and a password, as in ab?"},
		{"http", "-A text/html", "did you mean --header (-H) for what is accepted"},
		{"http", "-a ann:hunter22", "did you mean --basic-auth for a user and a password, as in hey and oha?"},
		{"http", "--user ann:hunter22", "did you mean --basic-auth for"},
		{"http", "-F a=@b", "did you mean --form for"},
		{"http", "--http3", "dyno has no HTTP/3: "},
		{"sse", "-u 10", "--connections (-c) for virtual users, as in k6?"},
		{"tcp", "-m POST", "dyno tcp --help lists the flags"},
		{"compare", "-r 100", "--rate (-R)"},
		{"run", "--vus 3", "--connections (-c)"},
		{"http", "-s x", "--timeout for the wait for a response, as in ab? dyno import wrk SCRIPT"},
		{"http", "--qps 5", "--rate (-R)"},
		{"tcp", "--stage 30s:100", "did you mean --users for a stage of virtual users, as in k6?"},
		{"http", "-rps=5", "--rate (-R)"},
		{"http", "-duration 5s", "did you mean --duration?"},
		{"http", "-connections 5", "did you mean --connections?"},
		{"http", "-c many", "dyno http --help lists the flags"},
		{"http", "--nothing-like-it", "dyno http --help lists the flags"},
		{"report", "-d 5s", "dyno report --help lists the flags"},
		{"report", "--qps 5", "dyno report --help lists the flags"},
	} {
		cmd := commandNamed(t, c.command)
		err := cmd.ParseFlags(strings.Fields(c.args))
		if err == nil {
			t.Errorf("%s %s: no error", c.command, c.args)
			continue
		}
		hint := hintOf(t, cmd, err, strings.Fields(c.args)...)
		if !strings.Contains(hint, c.want) {
			t.Errorf("%s %s: hint %q, want %q", c.command, c.args, hint, c.want)
		}
		if strings.Contains(hint, "hunter22") {
			t.Errorf("%s %s: the password is in %q", c.command, c.args, hint)
		}
	}
	if hint := hintOf(t, newApp(nil, io.Discard, io.Discard).root(), errors.New("unknown")); !strings.Contains(hint, "dyno http -c 64") {
		t.Errorf("without a command: hint %q", hint)
	}
}
