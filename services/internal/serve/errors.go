package serve

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// ErrorLog is for http.Server.ErrorLog: what net/http says, also of HTTP/2, goes to the service's log, in its form. Most of it
// is what clients have done wrong, which is for debugging.
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

// LogPanic logs what a handler has panicked with, and where, unless it is how handlers cut their connection. It is for the
// function that has recovered from it.
func LogPanic(l *slog.Logger, p any, args ...any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value is the very one
		return
	}
	l.Error("a handler has panicked", append(args, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
}
