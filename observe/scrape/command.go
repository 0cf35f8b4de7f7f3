package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"dyno/internal/texts"
	"dyno/observe"
	"dyno/observe/poll"
)

// Bounds of a command.
const (
	mostOutput   = 64 << 10
	mostComplain = 256 // bytes of standard error that are kept
	// lingers is how long a process started by the command may hold its output open after the command's
	// end.
	lingers = time.Second
)

// A Command observes the output of a user's command: a JSON object of numbers, or one name and number a
// line. A number is a counter if its name ends in _total, and a gauge otherwise. The first run gives
// the columns.
//
// The command runs again and again, one run at a time, in a process group of its own. The
// group is killed when a run takes longer than its period. It dies with this process. Only Linux
// has such groups; elsewhere the command alone is killed.
type Command struct {
	*poll.Poller
	name  string
	argv  []string
	table table
}

// NewCommand runs the command for the first time, and keeps running it. Name is the
// prefix of the columns.
func NewCommand(ctx context.Context, name string, argv []string, every time.Duration) (*Command, error) {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("name: empty; want the prefix of the columns"))
	}
	if len(argv) == 0 || argv[0] == "" {
		errs = append(errs, errors.New("command: empty; want a program and its arguments"))
	}
	if every < leastEvery {
		errs = append(errs, fmt.Errorf("every: %v; want at least %v", every, leastEvery))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	c := &Command{name: name, argv: argv}
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	first, err := c.run(ctx)
	if err == nil && len(first.Samples) == 0 {
		err = texts.NewError("unavailable.numbers", "command", argv[0])
	}
	if err == nil {
		_, err = choose(first.Samples, nil, DefaultMaxColumns)
	}
	if err != nil {
		return nil, &observe.Unavailable{Observer: name, Reason: texts.Together(texts.Reasons(err)...), Err: err}
	}
	c.table = newTable(first.Samples)
	c.Poller = poll.Start(len(first.Samples), every, every, c.read)
	return c, nil
}

// Name returns the name given.
func (c *Command) Name() string { return c.name }

// Columns returns a column for each number.
func (c *Command) Columns() []observe.Column {
	return append(append([]observe.Column(nil), c.table.columns...), poll.Column(""))
}

func (c *Command) read(ctx context.Context, row []float64) error {
	r, err := c.run(ctx)
	c.table.fill(row, r.Samples)
	return err
}

// run runs the command once.
func (c *Command) run(ctx context.Context) (Reading, error) {
	// A child learns of the end of the thread that made it, not of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out, complaint head
	out.limit, complaint.limit = mostOutput, mostComplain
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.Cancel = grouped(cmd)
	cmd.WaitDelay = lingers
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// The process that holds the output is in the group. Its number is not free until
		// it ends.
		_ = cmd.Cancel()
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Reading{}, fmt.Errorf("%s took too long and was killed: %w", c.argv[0], ctx.Err())
	case ctx.Err() != nil:
		return Reading{}, fmt.Errorf("%s was killed: %w", c.argv[0], ctx.Err())
	case err != nil:
		return Reading{}, fmt.Errorf("%s: %w%s", c.argv[0], err, complaint.quoted())
	case out.cut:
		return Reading{}, fmt.Errorf("%s: printed more than %d bytes", c.argv[0], mostOutput)
	}
	decode := Lines
	if text := bytes.TrimLeft(out.text, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		decode = Vars
	}
	r, err := decode(out.text)
	if err != nil {
		return Reading{}, fmt.Errorf("%s printed: %w", c.argv[0], err)
	}
	return r, nil
}

// A head keeps the beginning of the text that is written to it.
type head struct {
	text  []byte
	limit int
	cut   bool
}

func (h *head) Write(b []byte) (int, error) {
	keep := min(len(b), h.limit-len(h.text))
	h.text = append(h.text, b[:keep]...)
	h.cut = h.cut || keep < len(b)
	return len(b), nil
}

// quoted returns what was kept, for the end of a message.
func (h *head) quoted() string {
	text := bytes.TrimSpace(h.text)
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}
