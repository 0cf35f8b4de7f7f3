// Package cli is dyno's command line: one file per command. A command is a
// function of the streams it was given; Main maps its error to an exit code and
// prints it, once.
//
// To read the source: package quick makes experiments from flags, by package planflags; run.go measures,
// judges and prints. Package foreign has the one table of other tools' flags, and reads their command
// lines. Package help groups flags; serve, doctor and live have the jobs that are not a run's.
package cli

import (
	"context"
	"dyno/cli/agents"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/foreign"
	"dyno/cli/help"
	"dyno/cli/imports/k6"
	"dyno/cli/imports/wrk"
	"dyno/cli/live"
	"dyno/cli/output"
	"dyno/host/child"
	"dyno/internal/buildinfo"
	"dyno/internal/exit"
	"dyno/internal/garbage"
	"dyno/internal/hangup"
	"dyno/internal/terminal"
	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/lab/trial"
)

// An app is what the commands share.
type app struct {
	args           []string     // as given, to show how to repeat a run
	bare           bool         // no command was given: the server is asked what it speaks
	redirected     bool         // by its answer
	release        func() error // gives back what the command holds: see atEnd
	agents         *agents.Access
	stdin          io.Reader
	stdout, stderr io.Writer
	feed           *live.Feed // the events of a run; nil: they are not sent
	extended

	limits *trial.Limits // of the plans that it runs; nil: none
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, release: func() error { return nil }}
	a.agents = agents.New(stdout, stderr, a.atEnd)
	return a
}

// room is by how many bytes the heap grows at least before garbage is collected. A short load needs less.
const room = 64 << 20

// Main runs dyno and returns its exit code. A program that adds extensions has a main of its own, which calls this one.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, extensions ...Extension) int {
	more := extended{outputs: live.Outputs{}}
	for _, e := range extensions {
		if err := e.addTo(&more); err != nil {
			return exitCode(ctx, exit.With(exit.Failed, err, "the program that adds it must be changed"), stderr)
		}
	}
	if code, ran := child.Run(args, append(trial.Roles(), k6.Role(), wrk.Role())...); ran {
		return code
	}
	if len(args) == 0 || args[0] != "serve" { // a service that others measure is as Go makes it
		garbage.Pace(garbage.Room(room))
	}
	ctx, stop := withSignals(ctx)
	defer stop()
	output.SurviveBrokenPipes()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	gone := func() { end(signalled{syscall.SIGPIPE}) }
	out, errs := terminal.Cleaned(output.Piped(stdout, gone)), terminal.Cleaned(output.Piped(stderr, gone))
	defer func() { _, _ = out.Flush(), errs.Flush() }() // the end of a text that was cut
	stdout, stderr = out, errs
	a := newApp(stdin, stdout, stderr)
	a.extended = more
	if live.Followed(args) {
		args = args[1:]
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		// If the reader goes away, the run ends: it was started to be followed.
		a.feed = live.OpenFeed(func(error) { cancel(texts.NewError("reason.deserted")) })
		defer a.feed.Close()
		live.OnInterrupt(func() { cancel(signalled{syscall.SIGINT}) })
	}
	a.args = a.withCommand(args)
	a.bare = len(a.args) > len(args) && a.args[0] == "http"
	err := a.execute(ctx)
	if other := (*anotherCommand)(nil); errors.As(err, &other) {
		fmt.Fprintf(stderr, "dyno: %v\n", other)
		a.args, a.bare, a.redirected = append(strings.Fields(other.command), a.args[1:]...), false, true
		err = a.execute(ctx)
	}
	if failed := a.release(); err == nil {
		err = failed
	}
	return exitCode(ctx, err, stderr)
}

// atEnd adds a function that runs when the command ends. The one added last runs first.
func (a *app) atEnd(release func() error) {
	rest := a.release
	a.release = func() error { return errors.Join(release(), rest()) }
}

// execute runs the command that the arguments name.
func (a *app) execute(ctx context.Context) error {
	root := a.root()
	root.SetArgs(a.args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return root.ExecuteContext(ctx)
}

// Root returns the command dyno with all commands below it, for what describes them.
func Root() *cobra.Command { return newApp(nil, nil, nil).root() }

func (a *app) root() *cobra.Command {
	root := arguments.Group(&cobra.Command{
		Use: "dyno",
		Example: `  dyno -c 64 -z 10s http://127.0.0.1:8080/
  dyno capacity http://127.0.0.1:8080/ --slo 'p99 < 20ms'
  dyno compare --a './old -port {{port}}' --b './new -port {{port}}' 'http://127.0.0.1:{{port}}/'
  dyno run experiment.yaml`,
		Short: "A dynamometer for network services",
		Long: `dyno loads a server, watches it, repeats and interleaves trials, and reports
the results and how certain they are.

dyno URL is a quick load of what answers there: HTTP/1.1, HTTP/2, WebSocket (dyno ws), a
stream of events (dyno sse) or gRPC (dyno grpc). One request before the load finds that out; with a command,
or with -n, none is sent.`,
		Version:           buildinfo.Text(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	})
	root.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return arguments.UnknownCommand(root, args[0])
		}
		_, err := fmt.Fprintf(a.stdout, "%s\n\nExamples:\n%s\n\ndyno --help lists the commands.\n", root.Long, root.Example)
		return err
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return foreign.Refuse(cmd, err, a.args) })
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Describe a command or a topic",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return arguments.UnknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	})
	for _, c := range a.quickCommands() {
		cmd := a.quickCommand(c)
		root.AddCommand(cmd)
		if len(a.args) > 0 && a.args[0] == cmd.Name() {
			return root // without the others, which it takes milliseconds to make
		}
	}
	root.AddCommand(help.Topics()...)
	root.AddCommand(foreign.Commands()...)
	root.AddCommand(a.runCommand(), a.capacityCommand(), a.compareCommand(), a.reportCommand(), a.explainCommand(), a.diffCommand(),
		a.historyCommand(), a.uiCommand(), a.ctlCommand(), a.agents.Command(), a.submitCommand(), a.queueCommand(),
		a.checkCommand(), a.initCommand(), a.schemaCommand(), a.importCommand(), a.versionCommand())
	root.AddCommand(a.linuxCommands()...)
	return root
}

// withCommand adds the command that is meant if the arguments begin with a flag, a URL or an address. That is a quick
// load of the server there. Flags without a URL or an address mean a load whose URL is missing.
func (a *app) withCommand(args []string) []string {
	for i, arg := range args {
		protocol, where := plan.OfURL(arg)
		isTarget := protocol != plan.HTTP || arguments.IsURL(arg) || arguments.IsAddress(arg)
		switch {
		case isTarget && i > 0 && a.takesValue(args[i-1]): // as --agent does
		case protocol != plan.HTTP:
			args = slices.Clone(args)
			args[i] = where
			return append([]string{protocol}, args...)
		case isTarget || arg == "--targets" || strings.HasPrefix(arg, "--targets="):
			return append([]string{"http"}, args...)
		case i == 0 && !strings.HasPrefix(arg, "-"):
			return args
		}
	}
	named := func(c *cobra.Command) bool { return slices.Contains(args, c.Name()) }
	if len(args) == 0 || slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]) || slices.ContainsFunc(a.root().Commands(), named) {
		return args
	}
	return append([]string{"http"}, args...)
}

// takesValue tells whether an argument is a flag of a quick load that takes the next argument for its value.
func (a *app) takesValue(arg string) bool {
	http, _, err := a.root().Find([]string{plan.HTTP})
	if err != nil {
		return false
	}
	f := http.Flags().Lookup(strings.TrimPrefix(arg, "--"))
	if len(arg) == 2 && arg[0] == '-' {
		f = http.Flags().ShorthandLookup(arg[1:])
	}
	return f != nil && strings.HasPrefix(arg, "-") && f.NoOptDefVal == ""
}

// A signalled error is the cause of a context that a signal ended.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string { return s.AsMessage().String() }

// AsMessage returns the error as a message.
func (s signalled) AsMessage() texts.Message {
	return texts.New("reason.interrupted", "signal", signalName(s.signal))
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGPIPE:
		return "SIGPIPE"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return s.String()
}

// repeatTime is how long a second signal counts as the first. The terminal or the system
// signals both dyno and a program that runs it. Such a program, like timeout or npm, often
// passes the signal on.
const repeatTime = time.Second

// withSignals ends the context at the first SIGINT or SIGTERM, or SIGHUP as package hangup has it. One that comes later
// than repeatTime after that ends the process, in case stopping takes too long.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			time.AfterFunc(repeatTime, func() { signal.Stop(signals) })
			cancel(signalled{s.(syscall.Signal)})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return hangup.Watch(ctx, func() { cancel(signalled{syscall.SIGHUP}) }), func() { cancel(nil) }
}

// signalOf returns the signal that ended a context, or 0.
func signalOf(ctx context.Context) syscall.Signal {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		return s.signal
	}
	return 0
}
