package help

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is a group of flags in help.
type Group struct{ name, Flags string }

// Groups returns the groups in the order of help. Every flag of a command that makes load stands in
// one of them, except those of protocols that a program adds; a test fails for a flag that does not.
func Groups() []Group {
	return []Group{
		{"load", `connections streams users publishers duration requests rate arrivals stages ramp capacity slo from to warmup pilot timeout deadline
			requests-per-connection slow slow-rate receive-buffer seed`},
		{"request", `method header basic-auth body form targets location data data-file binary-file rows metadata metadata-file call messages
			stream-interval answered scenario payload framing size publish publish-message topic topics message binary encoding in-flight greetings first subscribe
			subscribe-only
			api model prompt prompts prompt-words prompt-words-to max-tokens max-tokens-to max-tokens-field options usage
			traceparent trace-url`},
		{"protocol", `http1 http2 web tls insecure cacert cert key server-name tls-min tls-max tls-tickets unix resolve resolve-to connect-to proxy
			authority proto protoset import-paths kind check compression stream-window connection-window max-header
			max-message subprotocol compress keepalive keepalive-timeout keepalive-without-calls gap-event`},
		{"output", `threshold abort-unless abort-after strict out json format full histogram quiet no-tui no-color push push-header slo-first-token slo-token-time
			fail-on-regression fail-on-inconclusive help help-all`},
		{"machine", `agent identity fleet agents exclusive control-plane control-plane-token-file
			kubernetes kubernetes-image kubernetes-namespace kubernetes-context kubernetes-cpu kubernetes-memory kubernetes-timeout kubernetes-rbac
			cpus target-cpus workers processes clock awake pid no-server pprof`},
		{"experiment", "a b control short set resume rounds stop margin metric pairs remeasure quiet-wait duet profile ready"},
	}
}

// MostUsed are the flags that short help of a quick load explains, as far as it has them.
const MostUsed = `connections streams duration requests rate method header data payload message body publish model max-tokens
	threshold out json`

// groupsOf returns the groups of a command's flags. Those that stand in no group are the first one.
func groupsOf(cmd *cobra.Command) []Group {
	groups, rest := Groups(), ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(groups, func(g Group) bool { return slices.Contains(strings.Fields(g.Flags), f.Name) }) {
			rest += " " + f.Name
		}
	})
	return append([]Group{{cmd.Name(), rest}}, groups...)
}

// lookUp returns those of the named flags that a command has and shows.
func lookUp(cmd *cobra.Command, names string) (found []*pflag.Flag) {
	for name := range strings.FieldsSeq(names) {
		if f := cmd.Flags().Lookup(name); f != nil && !f.Hidden {
			found = append(found, f)
		}
	}
	return found
}

// ByGroup makes help of a command show its most used flags, and all of them by group on demand.
func ByGroup(cmd *cobra.Command, most string) {
	all := false
	cmd.Flags().BoolFunc("help-all", "explain all flags", func(string) error {
		all = true
		return cmd.Flags().Set("help", "true")
	})
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		p := terminal{cmd.OutOrStdout()}
		about := cmd.Long
		if about == "" {
			about = cmd.Short
		}
		fmt.Fprintf(p, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n\n", about, cmd.UseLine(), cmd.Example)
		if all {
			for _, g := range groupsOf(cmd) {
				writeFlags(p, g.name, lookUp(cmd, g.Flags))
			}
			return
		}
		first := lookUp(cmd, most)
		writeFlags(p, "most used", first)
		var rows [][]string
		for _, g := range groupsOf(cmd) {
			var names []string
			for _, f := range lookUp(cmd, g.Flags) {
				if !slices.Contains(first, f) {
					names = append(names, "--"+f.Name)
				}
			}
			if len(names) > 0 {
				rows = append(rows, []string{g.name, strings.Join(names, " ")})
			}
		}
		p.text("More flags, which --help-all explains:")
		p.table(rows...)
	})
}

// writeFlags writes what a group of flags is, unless it is empty. A group may have no name.
func writeFlags(p page, group string, flags []*pflag.Flag) {
	var rows [][]string
	for _, f := range flags {
		rows = append(rows, describe(f))
	}
	if len(rows) > 0 {
		p.text(strings.TrimSuffix("Flags, "+group, ", ") + ":")
		p.table(rows...)
	}
}

// describe returns how a flag is written, and what it is.
func describe(f *pflag.Flag) []string {
	value, about := pflag.UnquoteUsage(f)
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
		about += " (default " + f.DefValue + ")"
	}
	return []string{strings.TrimRight(name+" "+value, " "), about}
}
