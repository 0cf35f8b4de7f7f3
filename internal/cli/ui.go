package cli

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/report"
	"dyno/report/html"
	"dyno/results/rundir"
	"dyno/ui"
)

func (a *app) uiCommand() *cobra.Command {
	c := ui.Defaults()
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show runs, live and past, in a browser",
		Long: `ui serves pages on loopback: the runs below a folder, two runs side by side,
the history of an experiment, and the current run. With --experiments it starts
and stops runs of the experiments in that folder, each in a process of its own.

The URL that it prints holds a token. Anybody who has it can start programs here.`,
		Example: `  dyno ui
  dyno ui --runs nightly --experiments experiments --listen 127.0.0.1:7071`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			c.Runner, c.Report = launcher{program}, html.Write
			c.Answer = func(run *rundir.Run) any { return report.Make(&rundir.Folder{Run: *run}) }
			if err := c.Validate(); err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			if !cmd.Flags().Changed("runs") { // a folder that the user named must exist
				if err := os.MkdirAll(c.Runs, 0o755); err != nil {
					return err
				}
			}
			c.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
			s, err := ui.New(c)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			if err := s.Listen(); err != nil {
				return errors.Join(err, s.Close())
			}
			fmt.Fprintf(a.stderr, "open in a browser: %s\n", s.URL())
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Runs, "runs", c.Runs, "the folder of run folders; runs started here go there")
	f.StringVar(&c.Experiments, "experiments", c.Experiments, "the folder whose experiments may be started (default none)")
	f.StringVar(&c.Listen, "listen", c.Listen, "where browsers connect: a loopback address and a port")
	return cmd
}

// A launcher starts runs as processes of their own, with dyno's own program.
type launcher struct{ program string }

var _ ui.Runner = launcher{}

// Start implements ui.Runner.
func (l launcher) Start(launch ui.Launch, tell func(ui.Event)) (ui.Execution, error) {
	args, err := runArgs(launch)
	if err != nil {
		return nil, err
	}
	feed, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	x := &execution{cmd: exec.Command(l.program, append(feedArgs(), args...)...), fed: make(chan struct{})}
	x.cmd.Stderr, x.cmd.WaitDelay = &x.said, outputDelay
	x.cmd.ExtraFiles = []*os.File{theirs}
	// The run has a process group of its own: a signal from the terminal is for the
	// pages, which end the run themselves.
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = x.cmd.Start()
	_ = theirs.Close() // the process has a copy
	if err != nil {
		return nil, errors.Join(err, feed.Close())
	}
	go func() {
		defer close(x.fed)
		defer func() { _ = feed.Close() }() // nothing was written
		follow(feed, tell)
	}()
	return x, nil
}

// runArgs are dyno's arguments for a run.
func runArgs(l ui.Launch) ([]string, error) {
	args := []string{"run", "--quiet", "--out", l.Dir}
	if l.Short {
		args = append(args, "--short")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Set)) {
		pair := name + "=" + l.Set[name]
		if strings.Count(pair, "=") > 1 { // then the flag reads it as CSV
			var b strings.Builder
			w := csv.NewWriter(&b)
			if err := w.Write([]string{pair}); err != nil {
				return nil, err
			}
			w.Flush()
			pair = strings.TrimSuffix(b.String(), "\n")
		}
		args = append(args, "--set", pair)
	}
	return append(args, "--", l.File), nil
}

// maxEvent bounds a line of a feed in bytes; a longer line ends the feed.
const maxEvent = 1 << 20

// follow reads a feed to its end. It leaves out events that it does not understand.
func follow(feed io.Reader, tell func(ui.Event)) {
	lines := bufio.NewScanner(feed)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e ui.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			tell(e)
		}
	}
	_, _ = io.Copy(io.Discard, feed) // so that the run does not block
}

// outputDelay bounds the wait for standard error to end after the process has ended: a
// process that it started may hold it open.
const outputDelay = 5 * time.Second

// An execution is a run in a process of its own.
type execution struct {
	cmd  *exec.Cmd
	said tail
	fed  chan struct{} // closed when the feed has ended
}

// Stop implements ui.Execution, with the signal that a terminal sends.
func (x *execution) Stop() error {
	err := x.cmd.Process.Signal(os.Interrupt)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Wait implements ui.Execution.
func (x *execution) Wait() ui.Outcome {
	<-x.fed
	err := x.cmd.Wait()
	o := ui.Outcome{Code: x.cmd.ProcessState.ExitCode(), Message: x.said.String()}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || o.Code < 0) {
		o.Message = strings.TrimSpace(o.Message + "\n" + err.Error())
	}
	return o
}

// maxSaid is how many bytes of a process's output are kept: the last ones.
const maxSaid = 16 << 10

// A tail keeps the end of the text that is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxSaid; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "\uFFFD")
}
