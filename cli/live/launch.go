package live

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/ui"
)

// A Launcher starts runs as processes of their own, with dyno's own program.
type Launcher struct{ Program string }

var _ ui.Runner = Launcher{}

// Start implements ui.Runner.
func (l Launcher) Start(launch ui.Launch, tell func(ui.Event)) (ui.Execution, error) {
	args, err := runArgs(launch)
	if err != nil {
		return nil, err
	}
	feed, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	x := &execution{cmd: exec.Command(l.Program, append([]string{followArg}, args...)...), fed: make(chan struct{})}
	x.cmd.Stderr, x.cmd.WaitDelay = &x.output, outputDelay
	if x.interrupt, err = bequeath(x.cmd, theirs); err == nil {
		err = x.cmd.Start()
	}
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
	cmd       *exec.Cmd
	interrupt func() error
	output    tail
	fed       chan struct{} // closed when the feed has ended
}

// Stop implements ui.Execution.
func (x *execution) Stop() error {
	err := x.interrupt()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Wait implements ui.Execution.
func (x *execution) Wait() ui.Outcome {
	<-x.fed
	err := x.cmd.Wait()
	o := ui.Outcome{Code: x.cmd.ProcessState.ExitCode(), Message: x.output.String()}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || o.Code < 0) {
		o.Message = strings.TrimSpace(o.Message + "\n" + err.Error())
	}
	return o
}

// maxTail is how many bytes of a process's output are kept: the last ones.
const maxTail = 16 << 10

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
	if over := len(t.text) - maxTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "\uFFFD")
}
