package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// ErrorLog is for http.Server.ErrorLog: it writes messages of net/http, with HTTP/2, to the service's log. Most of
// them are faults of clients, at debug level.
func ErrorLog(l *slog.Logger) *log.Logger { return log.New(errorLog{l}, "", 0) }

type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	switch {
	case bytes.Contains(line, []byte("panic")):
		level = slog.LevelError
	case bytes.Contains(line, []byte("Accept error")):
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// ErrPanicked says that a request has panicked.
var ErrPanicked = errors.New("the operation has failed: the server's log says why")

// Recovering carries out a request by its handler. A panic becomes ErrPanicked, and is logged with what the request is.
func Recovering[T any](l *slog.Logger, what, name string, handle func(T) error, request T) (err error) {
	defer func() {
		if p := recover(); p != nil {
			LogPanic(l, p, what, name)
			err = ErrPanicked
		}
	}()
	return handle(request)
}

// LogPanic logs a handler's panic, with its place, unless the panic only cuts the connection. Call it in the
// recovering function.
func LogPanic(l *slog.Logger, p any, args ...any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value is the very one
		return
	}
	l.Error("a handler has panicked", append(args, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
}
