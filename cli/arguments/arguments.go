// Package arguments reads and refuses the arguments of dyno's commands, and groups commands.
package arguments

import (
	"cmp"
	"fmt"
	"strings"

	"dyno/internal/exit"

	"github.com/spf13/cobra"
)

// Group makes a command that does nothing itself show its help, and refuse what is no command below it.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	return cmd
}

// UnknownCommand is the error for an unknown command below this one.
func UnknownCommand(parent *cobra.Command, name string) error {
	what := "command"
	if parent.Name() == "serve" {
		what = "service"
	}
	hint := fmt.Sprintf("%s --help lists the %ss", parent.CommandPath(), what)
	parent.SuggestionsMinimumDistance = 2
	if found := parent.SuggestionsFor(name); len(found) > 0 {
		for i := range found {
			found[i] = strings.TrimPrefix(parent.CommandPath()+" "+found[i], " ")
		}
		hint = fmt.Sprintf("did you mean %s? %s", strings.Join(found, " or "), hint)
	}
	return exit.Misused(hint, "unknown %s %q", what, name)
}

// ExactArgs demands n arguments; what describes them.
func ExactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return exit.Misused(cmp.Or(RateInQuiet(cmd, args), urlInJSON(cmd), "as in: "+cmd.UseLine()), "%s: want %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// NoArgs demands that there are no arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Misused("as in: "+cmd.UseLine(), "%s: want no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// RateInQuiet returns a hint if the user may have meant a rate by -q. Here -q takes no
// value, so the number is among the arguments. It returns "" otherwise.
func RateInQuiet(cmd *cobra.Command, args []string) string {
	quiet := cmd.Flags().Lookup("quiet")
	if quiet == nil || !quiet.Changed || cmd.Flags().Lookup("rate") == nil {
		return ""
	}
	for _, arg := range args {
		if arg != "" && strings.Trim(arg, "0123456789.") == "" {
			return fmt.Sprintf("did you mean --rate %s (-R)? In hey and oha, -q sets requests a second; here it turns off progress", arg)
		}
	}
	return ""
}

// urlInJSON returns a hint if --json has taken the URL for its file. In other tools, --json
// takes no value. It returns "" otherwise.
func urlInJSON(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("json"); f != nil && (IsURL(f.Value.String()) || IsAddress(f.Value.String())) {
		return "--json has taken the URL for its file: write --json FILE, or --json - for standard output"
	}
	return ""
}

// List joins words to a list in a sentence.
func List(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
