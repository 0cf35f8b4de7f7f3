package foreign

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/internal/exit"
	"dyno/internal/nearest"
	"dyno/internal/units"
)

// Refuse returns the error for an unknown flag, or for a value that a flag does not take. It hints
// at what the user meant, and hides a credential that was typed.
func Refuse(cmd *cobra.Command, err error, args []string) error {
	hint := strings.Join(append([]string{flagHint(cmd, err, args)}, retyped(cmd, args)...), "\n")
	err = withoutCredential(err)
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		err = fmt.Errorf("%s: %w", spelled(flag), units.Misread(flag.Value.Type(), invalid.GetValue(), errors.Unwrap(invalid)))
	}
	return exit.With(exit.Usage, err, hint)
}

// flagHint suggests the command's flag that the user meant by an unknown one. A refused value
// may have been the rest of a flag's name. The hint repeats no value among the arguments.
func flagHint(cmd *cobra.Command, err error, args []string) string {
	fallback := cmd.CommandPath() + " --help lists the flags"
	if !cmd.HasParent() {
		fallback = "flags follow a command, as in: dyno http -c 64 -z 10s http://127.0.0.1:8080/"
	}
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
		typed   string // without dashes
		value   string // typed after it; empty: not known
		single  bool   // with one dash
	)
	switch {
	case errors.As(err, &unknown):
		typed = unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			single = true
			// Long names of Go's own flags, which hey and vegeta use, have one dash.
			name, _, _ := strings.Cut(group, "=")
			if len(name) > 1 && (cmd.Flags().Lookup(name) != nil || slices.ContainsFunc(Flags(), func(f Flag) bool { return f.is(name) })) {
				typed = name
			} else {
				value = valueOf(group, args)
			}
		}
	case errors.As(err, &invalid):
		if f := invalid.GetFlag(); f.Shorthand != "" {
			typed, single = f.Shorthand+invalid.GetValue(), true
		}
		if cmd.Flags().Lookup(typed) == nil {
			return fallback
		}
	}
	if typed == "" {
		return fallback
	}
	if single && len(typed) > 1 && cmd.Flags().Lookup(typed) != nil {
		return "did you mean --" + typed + "?"
	}
	if hint := habitual(cmd, typed, value); hint != "" {
		return hint
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if meant, found := nearest.Find(typed, names); found && !single {
		return fmt.Sprintf("did you mean --%s? %s", meant, fallback)
	}
	return fallback
}

// is tells whether this is the flag of a name, without dashes.
func (f Flag) is(name string) bool { return slices.Contains(strings.Fields(f.Names), name) }

// of tells whether a tool has the flag.
func (f Flag) of(tool string) bool { return slices.Contains(strings.Fields(f.Tools), tool) }

// habitual says what users of other tools mean by a flag, by its two likeliest meanings. It
// returns "" if that is not known, or if the command makes no load. The form of the value may tell
// which tool's flag it is.
func habitual(cmd *cobra.Command, typed, value string) string {
	if cmd.Flags().Lookup("connections") == nil {
		return ""
	}
	if own := cmd.Flags().Lookup(typed); own != nil { // with one dash
		return "did you mean " + spelled(own) + "?"
	}
	rows := slices.DeleteFunc(Flags(), func(f Flag) bool { return !f.is(typed) || f.Remark == always })
	ofGHZ := func(f Flag) bool { return f.of("ghz") }
	if cmd.Name() == "grpc" && slices.ContainsFunc(rows, ofGHZ) { // whose users come from ghz
		rows = slices.DeleteFunc(rows, func(f Flag) bool { return !ofGHZ(f) })
	} else if cmd.Name() == "http" && slices.ContainsFunc(rows, func(f Flag) bool { return f.Tools != "ghz" }) {
		rows = slices.DeleteFunc(rows, func(f Flag) bool { return f.Tools == "ghz" })
	}
	fits := func(f Flag) bool { return f.user == isCredential(value) }
	if value != "" && slices.ContainsFunc(rows, fits) {
		rows = slices.DeleteFunc(rows, func(f Flag) bool { return !fits(f) })
	}
	var meant, remarks []string
	for _, f := range rows {
		ours := cmd.Flags().Lookup(f.Ours)
		isNeedless := f.bare && f.form != nil && f.form("") == ""
		switch {
		case len(meant)+len(remarks) == mostMeanings:
		case ours == nil || isNeedless:
			if f.Remark != "" && len(remarks) == 0 {
				remarks = append(remarks, f.Remark)
			}
		case !slices.ContainsFunc(meant, func(m string) bool { return strings.HasPrefix(m, spelled(ours)+" ") }):
			meant = append(meant, fmt.Sprintf("%s for %s, as in %s", spelled(ours), f.Means, arguments.List(strings.Fields(f.Tools))))
		}
	}
	if len(meant) > 0 {
		remarks = append([]string{"did you mean " + strings.Join(meant, "; or ") + "?"}, remarks...)
	}
	return strings.Join(remarks, " ")
}

// mostMeanings bounds how many meanings of a flag a hint has.
const mostMeanings = 2

// valueOf returns what was typed as the value of an unknown shorthand: the rest of its group, or
// the next argument.
func valueOf(group string, args []string) string {
	if len(group) > 1 {
		return strings.TrimPrefix(group[1:], "=")
	}
	if at := slices.Index(args, "-"+group); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}

// isCredential reports whether a value has the form user:password.
func isCredential(value string) bool {
	user, _, found := strings.Cut(value, ":")
	return found && !strings.ContainsAny(user, "/ ")
}

// withoutCredential removes the user and the password that were typed as a part of an unknown
// flag from its error.
func withoutCredential(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.Contains(unknown.GetSpecifiedShortnames(), ":") {
		return fmt.Errorf("unknown shorthand flag: '%s' in -%[1]s…", unknown.GetSpecifiedName())
	}
	return err
}

// spelled returns a flag in its long and its short form.
func spelled(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return fmt.Sprintf("--%s (-%s)", f.Name, f.Shorthand)
}
