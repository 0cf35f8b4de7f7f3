package cli

import (
	"os"
	"strings"
	"testing"
)

// A ghzFlag is a flag of ghz. The hint is empty where the flag is dyno's, too.
type ghzFlag struct{ name, short, hint string }

// ghzFlags are all flags of ghz 0.121, and what dyno grpc makes of each: nothing where the same
// flag does the same here, or does what it is for; else what the hint says.
var ghzFlags = []ghzFlag{
	{"config", "", "experiment file"},
	{"proto", "", ""},
	{"protoset", "", ""},
	{"call", "", ""},
	{"import-paths", "i", ""},
	{"cacert", "", ""},
	{"cert", "", ""},
	{"key", "", ""},
	{"cname", "", "--server-name"},
	{"skipTLS", "", "--insecure"},
	{"insecure", "", ""},
	{"authority", "", ""},
	{"async", "", "--rate (-R)"},
	{"rps", "r", "--rate (-R)"},
	{"load-schedule", "", "--stages"},
	{"load-start", "", "--stages"},
	{"load-step", "", "--stages"},
	{"load-end", "", "--stages"},
	{"load-step-duration", "", "--stages"},
	{"load-max-duration", "", "--stages"},
	{"concurrency", "c", "--streams"},
	{"concurrency-schedule", "", "--users"},
	{"concurrency-start", "", "--users"},
	{"concurrency-end", "", "--users"},
	{"concurrency-step", "", "--users"},
	{"concurrency-step-duration", "", "--users"},
	{"concurrency-max-duration", "", "--users"},
	{"total", "n", "--requests (-n)"},
	{"timeout", "t", ""},
	{"duration", "z", ""},
	{"max-duration", "x", "--duration (-z)"},
	{"duration-stop", "", "unfinished"},
	{"data", "d", ""},
	{"data-file", "D", ""},
	{"binary", "b", "--binary-file (-B)"},
	{"binary-file", "B", ""},
	{"metadata", "m", ""},
	{"metadata-file", "M", ""},
	{"stream-interval", "", ""},
	{"stream-call-duration", "", "--messages"},
	{"stream-call-count", "", "--messages"},
	{"stream-dynamic-messages", "", "before the load"},
	{"reflect-metadata", "", "--metadata (-m)"},
	{"output", "o", "--out (-o)"},
	{"format", "O", "--json"},
	{"skipFirst", "", "--warmup"},
	{"count-errors", "", "counted apart"},
	{"connections", "", ""},
	{"connect-timeout", "", "load.connect_timeout"},
	{"keepalive", "", "kept alive"},
	{"name", "", "--out DIR (-o)"},
	{"tags", "", "--out DIR (-o)"},
	{"cpus", "", ""},
	{"debug", "", "not logged"},
	{"enable-compression", "e", "--compression"},
	{"lb-strategy", "", "one address"},
	{"max-recv-message-size", "", "--max-message"},
	{"max-send-message-size", "", "as large as they are"},
	{"disable-template-functions", "", "before it"},
	{"disable-template-data", "", "before it"},
	{"version", "v", "dyno version"},
	{"help", "h", ""},
}

// What a ghz user types works, or is answered by what to type instead.
func TestFlagsOfGhz(t *testing.T) {
	answered := func(arg, hint string) {
		t.Helper()
		cmd := commandNamed(t, "grpc")
		flags := cmd.Flags()
		name := strings.TrimLeft(arg, "-")
		if flags.Lookup(name) != nil || len(name) == 1 && flags.ShorthandLookup(name) != nil {
			return
		}
		err := cmd.ParseFlags([]string{arg, "1"})
		if err == nil {
			t.Errorf("%s: there is neither such a flag nor an error", arg)
			return
		}
		if got := hintOf(t, cmd, err, arg, "1"); hint == "" || !strings.Contains(got, hint) {
			t.Errorf("%s: hint %q, want %q in it", arg, got, hint)
		}
	}
	for _, f := range ghzFlags {
		// A flag's two forms have the same answer, but where only one of them is another
		// flag's here.
		if f.name != "help" {
			answered("--"+f.name, f.hint)
		}
		if f.short != "" && f.short != "h" {
			hint := f.hint
			switch f.short {
			case "i":
				hint = "--import-paths"
			case "t":
				hint = "--timeout"
			}
			answered("-"+f.short, hint)
		}
	}
}

// The page for users of ghz says of each of them what it is here.
func TestPageHasTheFlagsOfGhz(t *testing.T) {
	page, err := os.ReadFile("../docs/from/ghz.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ghzFlags {
		if !strings.Contains(string(page), "`--"+f.name+"`") && f.name != "help" && f.name != "version" {
			t.Errorf("docs/from/ghz.md does not say what --%s is", f.name)
		}
	}
}
