// Package hangup decides what SIGHUP means to a process. The kernel and shells send it when a terminal is closed.
// People and service managers send it so that a service reads its configuration again.
//
// A command that is no service ends in both cases. A service ends only if it was started from a terminal and that
// terminal is gone: otherwise nothing but a request can be meant. Whether standard input or output is a terminal would
// not tell: a service on a terminal may well log to a file.
package hangup

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// repeatTime is how long after the end has begun a signal is still caught. A terminal and a program that passes signals
// on may both send it.
const repeatTime = time.Second

// A watch is the state of the process's signals.
type watch struct {
	signals    chan os.Signal
	requests   chan struct{}
	onTerminal bool        // it was started from one
	ignored    bool        // SIGHUP was, when it started
	service    atomic.Bool // it has called Outlive
}

// key is the key of the watch in a context.
type key struct{}

// Watch calls end at the first SIGHUP that is to end the process, until ctx ends. The context that it returns is for
// Outlive and Requests. Where SIGHUP is ignored, as under nohup, it never ends the process.
func Watch(ctx context.Context, end func()) context.Context {
	w := &watch{
		signals: make(chan os.Signal, 1), requests: make(chan struct{}, 1),
		onTerminal: hasTerminal(), ignored: signal.Ignored(syscall.SIGHUP),
	}
	if !w.ignored { // else programs that are started would not inherit that it is
		signal.Notify(w.signals, syscall.SIGHUP)
	}
	go func() {
		defer time.AfterFunc(repeatTime, func() { signal.Stop(w.signals) })
		for {
			select {
			case <-w.signals:
			case <-ctx.Done():
				return
			}
			if w.ends() {
				end()
				return
			}
			select {
			case w.requests <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	return context.WithValue(ctx, key{}, w)
}

// Outlive says that the process is a service. It ends at SIGHUP only if its terminal is gone.
func Outlive(ctx context.Context) {
	w, ok := ctx.Value(key{}).(*watch)
	if !ok || w.service.Swap(true) {
		return
	}
	if w.ignored {
		signal.Notify(w.signals, syscall.SIGHUP)
	}
}

// Requests returns what receives when SIGHUP asks a service to read its configuration again. Signals that come before
// the first is received count as one. It returns nil if nothing watches.
func Requests(ctx context.Context) <-chan struct{} {
	if w, ok := ctx.Value(key{}).(*watch); ok {
		return w.requests
	}
	return nil
}

// Refuse has a command that serves others go on at SIGHUP, and say that it reads nothing again.
func Refuse(ctx context.Context, log *slog.Logger) {
	Outlive(ctx)
	requests := Requests(ctx)
	go func() {
		for {
			select {
			case <-requests:
				log.Info("SIGHUP: this command reads nothing again; restart it to change its flags")
			case <-ctx.Done():
				return
			}
		}
	}()
}

// ends tells whether a SIGHUP that has just come ends the process.
func (w *watch) ends() bool {
	return !w.service.Load() || w.onTerminal && !w.ignored && !hasTerminal()
}

// hasTerminal tells whether the process has a controlling terminal. When a terminal is closed, the kernel takes it from
// all its processes before it sends the signal.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
