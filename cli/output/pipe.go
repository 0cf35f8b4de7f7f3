package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"dyno/internal/errno"
	"dyno/internal/terminal"
)

// A pipe is an output whose reader may go away, as in dyno … | head. cat and similar
// programs then die of SIGPIPE without a message. dyno ends as it does after any other
// signal: it stops what it has started, and keeps what was measured. It exits with the code
// that a shell uses for a death by SIGPIPE. If standard output has no reader, a load prints
// its results on standard error. If the reader of standard error goes away, dyno ends, too:
// without a reader of the progress, no user waits for the run, as in dyno … 2>&1 | head.
type pipe struct {
	to   io.Writer
	gone func() // the reader has gone away; may be called several times
}

// Write implements io.Writer.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errno.Is(err, syscall.EPIPE) {
		p.gone()
	}
	return n, err
}

// Piped returns the writer. If it is a pipe or a socket, which another program reads, it
// is watched.
func Piped(w io.Writer, gone func()) io.Writer {
	f, ok := w.(*os.File)
	if !ok {
		return w
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return w
	}
	return &pipe{w, gone}
}

// SurviveBrokenPipes makes writes to closed pipes fail instead of ending the process. Go
// ends the process if standard output or error is a closed pipe and no channel is notified
// of SIGPIPE. Ignoring the signal would also work, but commands that dyno starts would
// inherit that.
func SurviveBrokenPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // no receiver is needed: the error of the write is enough
}

// checkOutput tells in time that nothing can be written to an output that is a file.
func checkOutput(w io.Writer) error {
	w = terminal.Raw(w)
	if p, ok := w.(*pipe); ok {
		w = p.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var reads bool
	failed := raw.Control(func(fd uintptr) { reads, err = onlyReads(fd) })
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	if reads {
		return errors.New("standard output is open for reading only")
	}
	return nil
}
