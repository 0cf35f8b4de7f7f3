package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/lab/planfile"
)

func (a *app) initCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "init URL|HOST:PORT",
		Short: "Write an experiment file to begin with",
		Long: `Init writes an experiment for a server, with comments on what one would change first,
to standard output or to a new file. The scheme of the URL names the protocol: http and
https, grpc, tcp; without one it is http.`,
		Example: `  dyno init http://127.0.0.1:8080/ > server.yaml
  dyno init -o server.yaml tcp://127.0.0.1:7000`,
		Args: arguments.ExactArgs(1, "a URL or an address"),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			text, err := a.beginning(args[0])
			if err != nil {
				return exit.With(exit.Usage, err, "as in: dyno init http://127.0.0.1:8080/")
			}
			if file == "" {
				_, err = fmt.Fprint(a.stdout, text)
				return err
			}
			return create(file, []byte(text), anyone)
		},
	}
	cmd.Flags().StringVarP(&file, "out", "o", "", "the `FILE` to create (default: standard output)")
	return cmd
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of experiment files, by which editors complete them", Example: "  dyno schema > schema.json",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(planfile.Schema())
			return err
		},
	}
}

var notInHost = regexp.MustCompile(`[^0-9A-Za-z.]`)

// beginning returns an experiment for a server.
func (a *app) beginning(where string) (string, error) {
	protocol, rest := plan.OfURL(where)
	host, field, example := rest, "address", "127.0.0.1:{{port}}"
	if plan.HasURL(protocol) {
		field, example = "url", "http://"+example
		rest = arguments.WithScheme(rest)
		if scheme, _, found := strings.Cut(where, "://"); found && !arguments.IsURL(rest) {
			return "", fmt.Errorf("%q: the scheme is none of https, %s", scheme, strings.Join(plan.OfURLs(), ", "))
		}
		parsed, err := url.Parse(rest)
		if err != nil || parsed.Host == "" {
			return "", fmt.Errorf("%q is no URL", where)
		}
		host = parsed.Host
	}
	name := strings.Trim(notInHost.ReplaceAllString(host, "-"), "-.")
	commands := a.quickCommands()
	sent := commands[slices.IndexFunc(commands, func(c quickCommand) bool { return c.protocol == protocol })].sent
	return fmt.Sprintf(`# An experiment for dyno: dyno check FILE checks it, dyno run FILE runs it.
# All fields are in docs/reference/experiment.md; an editor completes them by what dyno schema prints.
name: %[1]s
question: How fast does it answer, and what does that cost?

target:
  protocol: %[2]s
  %[3]s: %[4]s
  # With start, each trial has a server of its own, and its CPU time, memory and output are recorded:
  # start: [./server, -listen, "127.0.0.1:{{port}}"]
  # %[3]s: %[5]q
  # cpus: "0" # those of the server, and load.cpus those of dyno

load:
%[6]s  # As many requests at once as there are connections; or on a schedule, whatever the server does:
  # open: {rate: 1000/s, arrivals: poisson}
  closed: {connections: 50}
  warmup: 2s
  window: 10s

design: {rounds: 3} # 8 or more to compare variants

# dyno run exits with 99 if one of these does not hold; dyno help metrics lists what they may name.
thresholds:
  - errors.ratio < 1%%
  - response.p99 < 1s

# Variants that are compared, by variables that stand in braces above, as in "{{connections}}":
# compare:
#   base: few
#   variants:
#     few: {connections: 10}
#     many: {connections: 100}
`, cmp.Or(name, "experiment"), protocol, field, strconv.Quote(plan.Quote(rest)), example, sent), nil
}
