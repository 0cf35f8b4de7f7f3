package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A pipe is an output whose reader may go away, as in dyno … | head. cat and its like die
// of SIGPIPE then, and say nothing. dyno ends as by any other signal: it stops what it has
// started, keeps what was measured, says nothing, and exits with what a shell calls a
// death by SIGPIPE. The same holds for standard error: progress that nobody reads is the
// sign that nobody waits for the run, as in dyno … 2>&1 | head.
type pipe struct {
	to   io.Writer
	gone func() // nobody reads any more; may be called several times
}

// Write implements io.Writer.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.gone()
	}
	return n, err
}

// piped returns the writer, watched if it is a file that somebody else reads: a pipe or a
// socket.
func piped(w io.Writer, gone func()) io.Writer {
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

// surviveBrokenPipes has writes to closed pipes fail instead of ending the process, which
// is what Go does where the descriptor is that of standard output or error and nobody asks
// for SIGPIPE. Ignoring the signal would do that as well, and be inherited by commands that
// dyno starts.
func surviveBrokenPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nobody receives: the error is enough
}
