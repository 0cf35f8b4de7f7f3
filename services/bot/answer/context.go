// Package answer decides how long an answer goes on: while a client reads it, and for some time after that.
package answer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Context ends with an answer. It outlasts the client, which may disconnect and resume.
type Context struct {
	context.Context
	cancel context.CancelCauseFunc
	client context.Context
	drain  time.Duration // how long it goes on without a client
	stop   [2]func() bool

	mu      sync.Mutex // guards the fields below
	present int        // clients
	left    bool       // the first client has left
	cut     bool       // the gateway has ended
	ended   bool
	timer   *time.Timer // for drain; nil before it is needed
}

// ErrLeft is the cause if the client has left.
var ErrLeft = errors.New("the client has left")

// ErrStopped is the cause when the user has stopped the answer.
var ErrStopped = errors.New("the user has stopped it")

// New returns the context of an answer. It ends drain after the last client has left, and at once when the gateway
// ends.
func New(client, gateway context.Context, drain time.Duration) *Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	w := &Context{Context: ctx, cancel: cancel, client: client, drain: drain, present: 1}
	w.stop = [...]func() bool{context.AfterFunc(client, w.Leave), context.AfterFunc(gateway, w.cutOff)}
	if client.Err() != nil { // no answer starts for a client that has gone
		w.Leave()
	}
	return w
}

// Leave says that the first client has left.
func (w *Context) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left {
		w.left = true
		w.without()
	}
}

// cutOff ends the answer: the gateway ends, so no client can read it.
func (w *Context) cutOff() {
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	w.cancel(ErrLeft)
}

// Stop ends the answer for its user; false if it has ended already.
func (w *Context) Stop() bool {
	w.cancel(ErrStopped)
	return w.Stopped()
}

// Stopped reports whether the user has stopped the answer.
func (w *Context) Stopped() bool { return errors.Is(context.Cause(w), ErrStopped) }

// Waiting returns a context for the time before the answer. It ends with the client or with the answer. Call the
// function after its last use.
func (w *Context) Waiting() (context.Context, func()) {
	ctx, cancel := context.WithCancel(w.client)
	stop := context.AfterFunc(w, cancel)
	return ctx, func() { stop(); cancel() }
}

// without removes a client. The caller holds mu.
func (w *Context) without() {
	if w.present--; w.present > 0 || w.ended {
		return
	}
	if w.drain == 0 {
		w.cancel(ErrLeft)
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.drain, func() { w.cancel(ErrLeft) })
		return
	}
	w.timer.Reset(w.drain)
}

// Came notes another reading client, for resume.Presence.
func (w *Context) Came() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present++
	w.stopTimer()
}

// stopTimer stops the time without a client. The caller holds mu.
func (w *Context) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Left notes that such a client has left, for resume.Presence.
func (w *Context) Left() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.without()
}

// Gone reports whether no client reads the answer, or none can.
func (w *Context) Gone() bool {
	if w.client.Err() != nil {
		w.Leave() // at once, even before the context notices
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present == 0 || w.cut
}

// End frees the resources of the context.
func (w *Context) End() {
	for _, stop := range w.stop {
		stop()
	}
	w.mu.Lock()
	w.ended = true
	w.stopTimer()
	w.mu.Unlock()
	w.cancel(ErrLeft)
}
