// Package requestlog writes a line of JSON for each request: who asked for what, what came of it, and what it cost. Up
// to 1,024 lines wait to be written. Further ones are lost, and counted: a slow disk delays no request.
package requestlog

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"dyno/services/bot/middleware"
	"dyno/services/bot/store"
)

// A Line is a request, and what the ledger has of it. Names are OpenTelemetry's, where there are any.
type Line struct {
	http.ResponseWriter `json:"-"` // of the request; the line counts what is written

	Time     time.Time `json:"time"`
	Client   string    `json:"client.address"`
	Method   string    `json:"http.request.method"`
	Path     string    `json:"url.path"`
	Received int64     `json:"http.request.body.size"` // -1 is unknown
	Sent     int64     `json:"http.response.body.size"`
	Status   int       `json:"http.response.status_code"`
	Cause    string    `json:"error.type,omitempty"`
	Asked    string    `json:"gen_ai.request.model,omitempty"`
	First    float64   `json:"first_token_ms,omitempty"`
	Took     float64   `json:"duration_ms"`
	store.Entry
	CacheRead  int `json:"gen_ai.usage.cache_read.input_tokens,omitempty"`
	CacheWrite int `json:"gen_ai.usage.cache_creation.input_tokens,omitempty"`
	Reasoning  int `json:"reasoning_tokens,omitempty"`
	// Texts are those that the gateway is to log.
	Request    string `json:"request.text,omitempty"`
	RequestCut bool   `json:"request.cut,omitempty"`
	Answer     string `json:"answer.text,omitempty"`
	AnswerCut  bool   `json:"answer.cut,omitempty"`
}

// Of returns the line of the request with a response; nil without one.
func Of(w http.ResponseWriter) *Line {
	line, _ := w.(*Line)
	return line
}

// Write implements http.ResponseWriter.
func (l *Line) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p)
	l.Sent += int64(n)
	return n, err
}

// Unwrap lets a response controller find what is within.
func (l *Line) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// A Log writes lines in the background. Its methods may be called from any goroutine.
type Log struct {
	path   string
	stdout io.Writer
	log    *slog.Logger
	lines  chan *Line
	reopen atomic.Bool
	ended  chan struct{}
	Lost   atomic.Uint64
}

// New opens a file, and writes after what is there; "stdout" is the writer. Close the log.
func New(path string, stdout io.Writer, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, stdout: stdout, log: log, lines: make(chan *Line, 1024), ended: make(chan struct{})}
	f, err := l.open()
	if err == nil {
		go l.write(f)
	}
	return l, err
}

func (l *Log) open() (io.Writer, error) {
	if l.path == "stdout" {
		return l.stdout, nil
	}
	return os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// write writes the lines as they come. It tells of lost ones at most once a second.
func (l *Log) write(f io.Writer) {
	defer close(l.ended)
	told, at := uint64(0), time.Time{}
	for line := range l.lines {
		if line == nil {
			return
		}
		if l.reopen.Swap(false) {
			if fresh, err := l.open(); err != nil {
				l.log.Error("the log of requests stays in its old file", "error", err)
			} else {
				_ = f.(io.Closer).Close() // its lines are written
				f = fresh
			}
		}
		text, err := json.Marshal(line)
		if err == nil {
			_, err = f.Write(append(text, '\n'))
		}
		if err != nil {
			l.Lost.Add(1)
		}
		if n := l.Lost.Load(); n > told && time.Since(at) > time.Second {
			l.log.Warn("lines of the log of requests are lost: it cannot be written, or too slowly", "lines", n-told, "error", err)
			told, at = n, time.Now()
		}
	}
}

// Reopen opens the path again before the next line: the file may have been renamed.
func (l *Log) Reopen() { l.reopen.Store(l.path != "stdout") }

// Close writes the waiting lines, until ctx ends. Requests that end later have none.
func (l *Log) Close(ctx context.Context) error {
	go func() { l.lines <- nil }()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Around returns a handler whose requests are logged.
func (l *Log) Around(next middleware.Handler) middleware.Handler {
	return func(w http.ResponseWriter, r *http.Request) int {
		line := &Line{ResponseWriter: w, Time: time.Now().UTC(), Method: r.Method, Path: r.URL.Path, Client: r.RemoteAddr, Received: r.ContentLength}
		status := next(line, r)
		if line.Status = status; status == middleware.Panicked {
			line.Status, line.Cause = http.StatusInternalServerError, "panic"
		}
		line.Took, line.ResponseWriter = float64(time.Since(line.Time).Microseconds())/1e3, nil
		select {
		case l.lines <- line:
		default:
			l.Lost.Add(1)
		}
		return status
	}
}
