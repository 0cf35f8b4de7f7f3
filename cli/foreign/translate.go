package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/cli/planflags"
	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/report/figure"
	"dyno/results/mask"
)

// A Tool is a load generator whose command lines are translated.
type Tool struct {
	Name     string
	Command  string            // dyno's for it
	verb     string            // the command of its own that makes load, if it has several
	goFlags  bool              // one dash may stand before names of any length, as in Go's flag package
	Same     string            // its flags that mean the same in dyno
	Defaults map[string]string // what it does without a flag, by the flag of dyno's that says so
	requests string            // how many it sends if no flag says when to end; empty: as dyno, by time
	timed    bool              // with a duration, it ignores the number of requests
	noURL    string            // where its URL is instead; empty: among its arguments
}

// Tools are those whose command lines are translated.
func Tools() []Tool {
	return []Tool{{
		Name: "wrk", Command: plan.HTTP, Same: "c connections H header timeout R rate",
		Defaults: map[string]string{"connections": "10"},
	}, {
		Name: "hey", Command: plan.HTTP, goFlags: true, Same: "n c z H",
		Defaults: map[string]string{"connections": "50"}, requests: "200", timed: true,
	}, {
		Name: "oha", Command: plan.HTTP, Same: "n c z H method no-tui http2 cacert cert key insecure",
		Defaults: map[string]string{"connections": "50"}, requests: "200", timed: true,
	}, {
		Name: "ab", Command: plan.HTTP, Same: "n c H",
		Defaults: map[string]string{"connections": "1", "requests-per-connection": "1"}, requests: "1",
	}, {
		Name: "h2load", Command: plan.HTTP, Same: "n requests c H header",
		Defaults: map[string]string{"connections": "1", "http2": "true"}, requests: "1",
	}, {
		Name: "vegeta", Command: plan.HTTP, verb: "attack", goFlags: true, Same: "duration timeout header insecure cert key",
		Defaults: map[string]string{"rate": "50"}, noURL: "standard input or a file",
	}, {
		Name: "k6", Command: plan.HTTP, verb: "run",
		Defaults: map[string]string{"connections": "1"}, requests: "1", noURL: "its script",
	}, {
		Name: "ghz", Command: plan.GRPC,
		Same: "proto protoset call import-paths cacert cert key authority timeout duration z data d data-file D " +
			"binary-file B metadata m metadata-file M stream-interval connections",
		Defaults: map[string]string{"connections": "1", "streams": "50", "tls": "true"}, requests: "200",
	}}
}

// Commands answer whole command lines of other tools.
func Commands() (all []*cobra.Command) {
	for _, t := range Tools() {
		all = append(all, newCommand(t))
	}
	return all
}

// newCommand answers a whole command line of another tool with that of dyno. It is not
// run, because the user has not said so.
func newCommand(from Tool) *cobra.Command {
	return &cobra.Command{
		Use:                from.Name,
		Short:              "Translate a command line of " + from.Name,
		Hidden:             true,
		DisableFlagParsing: true, // they are the tool's
		RunE: func(cmd *cobra.Command, args []string) error {
			if from.verb != "" && len(args) > 0 {
				if args[0] != from.verb {
					return exit.Misused("as in: dyno "+from.Name+" "+from.verb+" …", "%s %s makes no load", from.Name, args[0])
				}
				args = args[1:]
			}
			ours, _, err := cmd.Root().Find([]string{from.Command})
			if err != nil {
				return err
			}
			t := translate(from, ours, args, false)
			t.complete()
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), t.line()); err != nil {
				return err
			}
			return exit.Misused(strings.Join(t.remarks, "\n"), "a command line of %s is translated and not run", from.Name)
		},
	}
}

// userPassword stands for a credential that is not shown.
const userPassword = "$USER_PASSWORD"

// A translation is a command line of another tool in the words of dyno.
type translation struct {
	tool  Tool
	cmd   *cobra.Command // dyno's
	mixed bool           // flags of dyno's may stand in it, too

	flags   []translatedFlag
	where   []string // the arguments that are no flags
	remarks []string // on what was not carried over
	faulty  bool     // a flag is not known, or its value does not fit
	pure    bool     // all flags are the tool's
	each    bool     // the rate is that of each connection
}

// A translatedFlag is a flag of dyno's with its value. One without a value is not shown: it
// takes the place of the tool's default.
type translatedFlag struct {
	*pflag.Flag
	value string
}

// translate reads the arguments of another tool.
func translate(from Tool, cmd *cobra.Command, args []string, mixed bool) *translation {
	t := &translation{tool: from, cmd: cmd, mixed: mixed, pure: true}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case len(arg) < 2 || arg[0] != '-':
			t.where = append(t.where, arg)
		case strings.HasPrefix(arg, "--"):
			args = t.long(arg[2:], args)
		default:
			args = t.short(arg[1:], args)
		}
	}
	return t
}

// long reads a flag with its name in full, and returns the arguments after it and its value.
func (t *translation) long(text string, args []string) []string {
	name, value, given := strings.Cut(text, "=")
	return t.flag(name, value, given, args)
}

// short reads what follows one dash: a name in full, where the tool has such; or one or more
// letters, and the value of the last one.
func (t *translation) short(text string, args []string) []string {
	name, _, _ := strings.Cut(text, "=")
	if _, known := t.find(name); len(name) > 1 && t.tool.goFlags && (known || !t.mixed) {
		return t.long(text, args)
	}
	for text != "" {
		f, _ := t.find(text[:1])
		if !f.bare {
			return t.flag(text[:1], strings.TrimPrefix(text[1:], "="), len(text) > 1, args)
		}
		args = t.flag(text[:1], "", false, args)
		text = text[1:]
	}
	return args
}

// find returns a flag of the tool's, or one of dyno's that means the same there.
func (t *translation) find(name string) (f Flag, known bool) {
	isSame := slices.Contains(strings.Fields(t.tool.Same), name)
	all := Flags()
	i := slices.IndexFunc(all, func(f Flag) bool { return f.of(t.tool.Name) && f.is(name) })
	if i >= 0 && !isSame {
		return all[i], true
	}
	ours := t.cmd.Flags().Lookup(name)
	if len(name) == 1 {
		ours = t.cmd.Flags().ShorthandLookup(name)
	}
	if ours == nil || !t.mixed && !isSame {
		return f, false
	}
	t.pure = t.pure && isSame
	return Flag{Names: name, Ours: ours.Name, bare: ours.NoOptDefVal != ""}, true
}

// flag reads a flag, whose value may be the next argument, and returns the arguments after it.
func (t *translation) flag(name, value string, given bool, args []string) []string {
	typed := "--" + name
	if len(name) == 1 || t.tool.goFlags {
		typed = "-" + name
	}
	f, known := t.find(name)
	switch {
	case !known:
		t.fault("%s: %s has no such flag, or dyno does not know it", typed, t.tool.Name)
		return args
	case f.bare || given:
	case len(args) == 0:
		t.fault("%s: its value is missing", typed)
		return nil
	default:
		value, args = args[0], args[1:]
	}
	t.take(f, typed, value)
	return args
}

// take carries a flag over, if dyno has it.
func (t *translation) take(f Flag, typed, value string) {
	ours := t.cmd.Flags().Lookup(f.Ours)
	switch {
	case !f.user && isCredential(value) && isUserElsewhere(strings.TrimLeft(typed, "-")):
		t.fault("%s: its value may be a credential, which it is in other tools", typed)
		return
	case ours != nil && f.unlike:
		t.remark("%s: has another form; see %s for %s", typed, spelled(ours), f.Means)
		return
	case ours == nil && f.Remark != always:
		t.faulty = t.faulty || f.user // without it, it is another load
		t.remark("%s: %s", typed, f.Remark)
		return
	case ours == nil, f.bare && value == "false" && f.form == nil: // a switch that is off
		return
	case f.user:
		value = userPassword
	case f.form != nil:
		if value = f.form(value); value == "" && f.Ours == "push" { // an output that receives no live figures
			t.remark("%s: %s", typed, f.Remark)
			return
		}
	case f.bare:
		value = "true"
	}
	if t.tool.Name == "wrk" {
		value = withoutUnit(value)
	}
	if !t.fits(ours, value) {
		t.fault("%s: its value does not fit %s", typed, spelled(ours))
		return
	}
	t.each = t.each || f.each
	t.set(ours.Name, value)
	if t.tool.Name == "ab" && typed == "-u" {
		t.set("method", "PUT")
	}
}

// withoutUnit writes a number with a unit of wrk's as one without; anything else as it is.
func withoutUnit(value string) string {
	for unit, times := range map[string]int{"k": 1_000, "M": 1_000_000, "G": 1_000_000_000} {
		if n, err := strconv.Atoi(strings.TrimSuffix(value, unit)); err == nil && strings.HasSuffix(value, unit) {
			return strconv.Itoa(n * times)
		}
	}
	return value
}

// fits tells whether a flag of dyno's may have a value.
func (t *translation) fits(f *pflag.Flag, value string) bool {
	field, ok := f.Value.(*planflags.Flag)
	switch {
	case value == "" || ok && strings.HasPrefix(value, "@"):
		return true
	case ok:
		return field.Fill(plan.New(t.tool.Name, t.tool.Command), value) == nil
	case f.Value.Type() == "int":
		_, err := strconv.Atoi(value)
		return err == nil
	}
	return true
}

func (t *translation) remark(format string, args ...any) {
	t.remarks = append(t.remarks, fmt.Sprintf(format, args...))
}

func (t *translation) fault(format string, args ...any) {
	t.faulty = true
	t.remark(format, args...)
}

// set gives a flag of dyno's a value. The last one counts, unless it may be repeated.
func (t *translation) set(name, value string) {
	f := t.cmd.Flags().Lookup(name)
	field, isField := f.Value.(*planflags.Flag)
	_, isList := f.Value.(pflag.SliceValue)
	if repeats := isList || isField && field.Repeats; !repeats {
		t.remove(name)
	}
	t.flags = append(t.flags, translatedFlag{f, value})
}

func (t *translation) remove(name string) {
	t.flags = slices.DeleteFunc(t.flags, func(f translatedFlag) bool { return f.Name == name })
}

// value returns what a flag was given.
func (t *translation) value(name string) (value string, given bool) {
	i := slices.IndexFunc(t.flags, func(f translatedFlag) bool { return f.Name == name })
	if i < 0 {
		return "", false
	}
	return t.flags[i].value, true
}

// complete adds what the tool does without a flag.
func (t *translation) complete() {
	given := func(name string) bool {
		_, is := t.value(name)
		return is
	}
	if given("http1") {
		delete(t.tool.Defaults, "http2")
	}
	if given("users") { // whose stages say how many there are, and for how long
		delete(t.tool.Defaults, "connections")
	}
	if t.tool.requests != "" && !given("requests") && !given("duration") && !given("users") {
		t.set("requests", t.tool.requests)
	}
	if t.tool.timed && given("duration") && given("requests") {
		t.remark("-n: with a duration, %s sends as many as it can", t.tool.Name)
		t.remove("requests")
	}
	for _, name := range slices.Sorted(maps.Keys(t.tool.Defaults)) {
		if !given(name) {
			t.set(name, t.tool.Defaults[name])
		}
	}
	if t.tool.Name == "ghz" { // its concurrency is that of all connections together
		text, _ := t.value("connections")
		connections, _ := strconv.Atoi(text)
		text, _ = t.value("streams")
		calls, _ := strconv.Atoi(text)
		t.set("streams", strconv.Itoa((calls+connections-1)/max(connections, 1)))
	}
	switch {
	case t.tool.noURL != "":
		scripts := slices.DeleteFunc(slices.Clone(t.where), arguments.IsURL)
		for _, script := range scripts {
			t.remark("%s: dyno import %s makes an experiment of such a file", script, t.tool.Name)
		}
		if t.where = slices.DeleteFunc(t.where, func(arg string) bool { return !arguments.IsURL(arg) }); len(t.where) == 0 && !given("targets") {
			t.remark("URL: %s reads it from %s; write it in this place", t.tool.Name, t.tool.noURL)
		}
	case len(t.where) == 0:
		t.fault("URL: is missing")
	}
	for _, more := range t.where[min(1, len(t.where)):] {
		t.remark("%s: one server is loaded at a time; several requests are steps of --scenario FILE", mask.Text("", more))
	}
	if len(t.where) > 0 || !given("targets") {
		t.where = append(t.where, "URL")[:1]
	}
}

// line returns the command line for dyno.
func (t *translation) line() string {
	if t.each {
		t.total()
	}
	words := []string{"dyno", t.cmd.Name()}
	for _, f := range t.flags {
		switch name := cmp.Or(strings.TrimSuffix("-"+f.Shorthand, "-"), "--"+f.Name); {
		case f.value == "":
		case f.NoOptDefVal != "":
			words = append(words, name)
		default:
			words = append(words, name, mask.Text("", f.value))
		}
	}
	for _, w := range t.where {
		words = append(words, mask.Text("", w))
	}
	line := figure.CommandLine(words)
	for _, sign := range []string{userPassword, mask.Sign} {
		if strings.Contains(line, sign) {
			t.remark("%s: stands for a credential, which is not printed", sign)
		}
	}
	return line
}

// total makes the rate of each connection that of all.
func (t *translation) total() {
	each, _ := t.value("rate")
	text, given := t.value("connections")
	connections, err := strconv.Atoi(text)
	rate, notRate := strconv.ParseFloat(each, 64)
	if !given || err != nil || notRate != nil {
		t.fault("the rate is that of each connection: multiply it by their number")
		return
	}
	t.set("rate", strconv.FormatFloat(rate*float64(connections), 'f', -1, 64))
}

// vegetaRate reads a rate of vegeta's, such as 50/1s; 0 is none.
func vegetaRate(given string) string {
	number, unit, found := strings.Cut(given, "/")
	if number == "0" || number == "infinity" {
		return ""
	}
	if found && !strings.ContainsAny(unit, "0123456789") {
		unit = "1" + unit
	}
	per, err := time.ParseDuration(cmp.Or(unit, "1s"))
	count, notNumber := strconv.ParseFloat(number, 64)
	if err != nil || notNumber != nil || per <= 0 {
		return given // which then does not fit
	}
	return strconv.FormatFloat(count/per.Seconds(), 'f', -1, 64)
}

// mostRetyped bounds how many translations an error shows.
const mostRetyped = 2

// retyped translates a command line with flags of other tools to dyno's, with a line for each
// meaning. It omits a tool if a flag is unknown or its value does not fit.
func retyped(cmd *cobra.Command, args []string) (lines []string) {
	if len(args) == 0 || args[0] != cmd.Name() {
		return nil
	}
	var pure, mixed []string
	for _, from := range Tools() {
		if from.Command != cmd.Name() {
			continue
		}
		t := translate(from, cmd, args[1:], true)
		line := t.line()
		if t.faulty || len(t.where) == 0 {
			continue
		}
		known := &mixed
		if t.pure {
			known = &pure
		}
		if !slices.ContainsFunc(*known, func(l string) bool { return strings.Contains(l+"\n", ": "+line+"\n") }) {
			*known = append(*known, strings.Join(append([]string{"as in " + from.Name + ": " + line}, t.remarks...), "\n"))
		}
	}
	if len(pure) == 0 {
		pure = mixed
	}
	return pure[:min(len(pure), mostRetyped)]
}

// isUserElsewhere tells whether the value of a flag is user:password in some tool.
func isUserElsewhere(name string) bool {
	return slices.ContainsFunc(Flags(), func(f Flag) bool { return f.user && f.is(name) })
}
