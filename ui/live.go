package ui

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"dyno/hub"
	"dyno/hub/journal"
	"dyno/internal/texts"
)

// Bounds of the current run's data. Older data is left out and counted.
const (
	keptSeconds = 1800
	keptTrials  = 1000
)

// The bounds of the stream.
const (
	historyEvents = 2000
	historyBytes  = 8 << 20
	queueEvents   = 1000
	queueBytes    = 4 << 20
	maxStreams    = 64 // further clients are refused with 503 and come back
)

// A Live is the current run, or the last one.
type Live struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Experiment string            `json:"experiment"` // its ID
	Short      bool              `json:"short"`
	Set        map[string]string `json:"set,omitempty"`
	StartedAt  time.Time         `json:"started_at"`
	EndedAt    *time.Time        `json:"ended_at,omitempty"`
	Stopping   bool              `json:"stopping,omitempty"`
	Elsewhere  bool              `json:"elsewhere,omitempty"` // another process runs it, so it cannot be stopped from here
	Outcome    *Outcome          `json:"outcome,omitempty"`   // once it has ended
	Trial      *Begin            `json:"trial,omitempty"`     // the current one
	Seconds    []Second          `json:"seconds"`             // the latest
	Trials     []TrialEnd        `json:"trials"`              // the latest
	Omitted    int               `json:"omitted,omitempty"`   // earlier trials
}

// errBusy means that a run is in progress, and errIdle that it is not.
var (
	errBusy = texts.NewError("refused.busy")
	errIdle = texts.NewError("refused.idle")
)

// A stage runs one run at a time, and any number of clients watch it. An event changes
// the state and is published in one step. So a client that is given the state and the ID
// of the last event misses nothing.
type stage struct {
	hub    *hub.Hub
	runner Runner
	log    *slog.Logger
	now    func() time.Time
	// changed is called when a run has begun or ended.
	changed func()

	mu        sync.Mutex // guards the following fields
	run       *Live      // nil before the first run
	execution Execution
	gone      chan struct{} // closed when the run has ended; nil before the first run
	last      string        // the ID of the last event
	closed    bool
}

// topic is the only topic of the hub.
const topic = "live"

func newStage(runner Runner, log *slog.Logger, changed func()) (*stage, error) {
	c := hub.Defaults()
	// The connection stays with the server, which writes the state to it and closes it at
	// the end.
	c.Hijack, c.EventLoop = false, false
	c.HistoryEvents, c.HistoryBytes = historyEvents, historyBytes
	c.QueueEvents, c.QueueBytes = queueEvents, queueBytes
	c.MaxSubscribers, c.MaxPerAddress = maxStreams, maxStreams
	c.Heartbeat = 15 * time.Second
	c.Logger = log
	h, err := hub.New(c)
	if err != nil {
		return nil, err
	}
	s := &stage{hub: h, runner: runner, log: log, now: time.Now, changed: changed}
	// The first event is not for clients. It gives the state an ID after which the stream
	// continues.
	s.publish("idle", struct{}{})
	return s, nil
}

// publish sends an event to clients. The hub has one process and keeps its history in
// memory, so it refuses nothing that can be encoded.
func (s *stage) publish(kind string, value any) {
	data, err := json.Marshal(value)
	if err == nil {
		var id string
		if id, err = s.hub.Publish(context.Background(), hub.Update{Topics: []string{topic}, Type: kind, Data: data}); err == nil {
			s.last = id
			return
		}
	}
	s.log.Error("event not published", "type", kind, "error", err)
}

// outline is the run without the parts that have events of their own.
func (l *Live) outline() Live {
	o := *l
	o.Seconds, o.Trials = []Second{}, []TrialEnd{}
	return o
}

// start begins a run. It fails with errBusy, or as the Runner does.
func (s *stage) start(run Live, launch Launch) error {
	run.StartedAt = s.now()
	return s.show(run, func() (Execution, error) { return s.runner.Start(launch, s.handle) })
}

// show makes a run the current one.
func (s *stage) show(run Live, begin func() (Execution, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.run != nil && s.run.Outcome == nil {
		return errBusy
	}
	gone := make(chan struct{})
	execution, err := begin()
	if err != nil {
		return err
	}
	run.Seconds, run.Trials = []Second{}, []TrialEnd{}
	s.run, s.execution, s.gone = &run, execution, gone
	s.changed()
	s.publish("run", s.run.outline())
	go func() {
		outcome := execution.Wait()
		s.changed()
		s.mu.Lock()
		defer s.mu.Unlock()
		ended := s.now()
		s.run.Outcome, s.run.EndedAt, s.run.Trial = &outcome, &ended, nil
		s.publish("ended", s.run.outline())
		close(gone)
	}()
	return nil
}

// handle handles an event of the run.
func (s *stage) handle(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Begin != nil:
		s.run.Trial = e.Begin
		s.publish("begin", e.Begin)
	case e.Second != nil:
		if len(s.run.Seconds) == keptSeconds {
			s.run.Seconds = slices.Delete(s.run.Seconds, 0, 1)
		}
		s.run.Seconds = append(s.run.Seconds, *e.Second)
		s.publish("second", e.Second)
	case e.End != nil:
		if len(s.run.Trials) == keptTrials {
			s.run.Trials = slices.Delete(s.run.Trials, 0, 1)
			s.run.Omitted++
		}
		s.run.Trial = nil
		s.run.Trials = append(s.run.Trials, *e.End)
		s.publish("end", e.End)
	}
}

// stop ends the run with this ID. It fails with errIdle if that run is not in progress.
func (s *stage) stop(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.ID != id || s.run.Outcome != nil || s.run.Elsewhere && !s.closed {
		return errIdle
	}
	if err := s.execution.Stop(); err != nil {
		return err
	}
	if !s.run.Stopping {
		s.run.Stopping = true
		s.publish("stopping", s.run.outline())
	}
	return nil
}

// running returns the ID of the current run, or "".
func (s *stage) running() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.Outcome != nil {
		return ""
	}
	return s.run.ID
}

// close ends the current run and lets no other begin. After the timeout it kills the run.
func (s *stage) close(timeout time.Duration) {
	s.mu.Lock()
	s.closed = true
	gone, id := s.gone, ""
	if s.run != nil && s.run.Outcome == nil {
		id = s.run.ID
	}
	s.mu.Unlock()
	if id == "" {
		return
	}
	s.end(id)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-gone:
		return
	case <-timer.C:
	}
	s.end(id)
	<-gone
}

// end stops a run that may have ended meanwhile.
func (s *stage) end(id string) {
	if err := s.stop(id); err != nil && !errors.Is(err, errIdle) {
		s.log.Error("run not stopped", "run", id, "error", err)
	}
}

// present returns the state as an event, and the ID after which the stream continues.
func (s *stage) present() (frame []byte, last string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.Marshal(struct {
		Run *Live `json:"run"`
	}{s.run})
	if err != nil {
		return nil, "", err
	}
	return journal.AppendFrame(nil, &hub.Update{ID: s.last, Type: "state", Data: data}), s.last, nil
}

// serve streams: first the state, unless the client has it, then the later events.
func (s *stage) serve(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		frame, id, err := s.present()
		if err != nil {
			s.log.Error("state", "error", err)
			answer(w, http.StatusInternalServerError, err)
			return
		}
		w, last = &preceded{ResponseWriter: w, first: frame}, id
	}
	inner := r.Clone(r.Context())
	inner.URL = &url.URL{Path: "/events", RawQuery: "topic=" + topic}
	inner.Header = http.Header{"Last-Event-Id": {last}}
	s.hub.Handler().ServeHTTP(w, inner)
}

// A preceded response writes something before its body, unless it is a refusal.
type preceded struct {
	http.ResponseWriter
	first []byte
}

// WriteHeader implements http.ResponseWriter.
func (p *preceded) WriteHeader(status int) {
	if status != http.StatusOK {
		p.first = nil
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (p *preceded) Write(b []byte) (int, error) {
	if p.first != nil {
		first := p.first
		p.first = nil
		if _, err := p.ResponseWriter.Write(first); err != nil {
			return 0, err
		}
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController flush.
func (p *preceded) Unwrap() http.ResponseWriter { return p.ResponseWriter }
