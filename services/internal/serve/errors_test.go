package serve

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lines takes what is written, line by line.
type lines chan []byte

func (l lines) Write(line []byte) (int, error) { l <- bytes.Clone(line); return len(line), nil }

// TestErrorLog: what net/http says of a handler that has panicked is one record of the service's log, for everybody to see.
func TestErrorLog(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		out := make(lines, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") }))
		server.Config.ErrorLog = ErrorLog(slog.New(slog.NewJSONHandler(out, nil)))
		server.EnableHTTP2 = http2
		server.StartTLS()
		if resp, err := server.Client().Get(server.URL); err == nil {
			resp.Body.Close()
			t.Errorf("an answer: %s", resp.Status)
		}
		line := <-out // over HTTP/2, it may come after the client has gone
		server.Close()
		var record struct{ Level, Msg string }
		if err := json.Unmarshal(line, &record); err != nil || record.Level != "ERROR" || !bytes.Contains([]byte(record.Msg), []byte("on purpose")) {
			t.Errorf("HTTP/2 %v: %v: %s", http2, err, line)
		}
	}
}

// TestErrorLevels: faults of clients are for debugging.
func TestErrorLevels(t *testing.T) {
	var out bytes.Buffer
	l := ErrorLog(slog.New(slog.NewJSONHandler(&out, nil)))
	l.Print("http2: server: error reading preface from client 192.0.2.1:1: EOF")
	if out.Len() > 0 {
		t.Errorf("%s", &out)
	}
	if l.Print("http: Accept error: too many open files; retrying in 5ms"); !bytes.Contains(out.Bytes(), []byte(`"level":"WARN"`)) {
		t.Errorf("%s", &out)
	}
}

// TestLogPanic: with where it was, unless a handler has only cut its connection.
func TestLogPanic(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(slog.NewJSONHandler(&out, nil))
	if LogPanic(l, http.ErrAbortHandler, "route", "r"); out.Len() > 0 {
		t.Errorf("%s", &out)
	}
	LogPanic(l, "on purpose", "route", "r")
	var record struct{ Level, Panic, Route, Stack string }
	if err := json.Unmarshal(out.Bytes(), &record); err != nil || record.Level != "ERROR" || record.Panic != "on purpose" || record.Route != "r" || !strings.Contains(record.Stack, "TestLogPanic") {
		t.Errorf("%v: %s", err, &out)
	}
}
