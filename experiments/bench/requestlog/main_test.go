package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"dyno/internal/freeport"
	"dyno/internal/roles"
)

// file writes a file, and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// It compares requests and their times, and does not ask who sent them.
func TestCompare(t *testing.T) {
	line := func(at time.Duration, from, request string) string {
		return fmt.Sprintf("%d\t%s\t%q\n", at.Nanoseconds(), from, request)
	}
	const ms = time.Millisecond
	alone := line(10*ms, "a", "GET /0 HTTP/1.1\r\n\r\n") + line(20*ms, "a", "GET /1?x HTTP/1.1\r\n\r\n") + line(0, "a", "GET / HTTP/1.1\r\n\r\n")
	for _, test := range []struct {
		name, shared string
		err          string // empty: none
		want         []string
	}{
		{"equal", line(521*ms, "c", "GET /1?x HTTP/1.1\r\n\r\n") + line(510*ms, "b", "GET /0 HTTP/1.1\r\n\r\n"), "", []string{"differences 0", "requests 2", "start_skew_ms 1.000"}},
		{"late", line(522*ms, "c", "GET /1?x HTTP/1.1\r\n\r\n") + line(510*ms, "b", "GET /0 HTTP/1.1\r\n\r\n"), "the starts are 2.000 ms apart", []string{"differences 0"}},
		{"missing", line(510*ms, "b", "GET /0 HTTP/1.1\r\n\r\n"), "1 differences", []string{"start_skew_ms 0.000"}},
		{"other bytes", line(510*ms, "b", "GET /0 HTTP/1.1\r\n\r\n") + line(520*ms, "b", "GET /1?y HTTP/1.1\r\n\r\n"), "1 differences", nil},
		{"twice, and more", alone + line(520*ms, "a", "GET /0 HTTP/1.1\r\n\r\n") + line(520*ms, "a", "GET /2 HTTP/1.1\r\n\r\n"), "2 differences", nil},
		{"nothing", "", "there is nothing to compare", nil},
		{"no line", "x\n", "is no line of a request", nil},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"compare", file(t, alone), file(t, test.shared)}, &out)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %q", test.name, err, test.err)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), "result: "+want+"\n") {
				t.Errorf("%s: no %s in\n%s", test.name, want, &out)
			}
		}
	}
}

// logOf is a log with values of two intervals.
func logOf(t *testing.T, first, second []int64) string {
	t.Helper()
	text := "#[StartTime: 100.0 (seconds since epoch), x]\n#[BaseTime: 100.0 (seconds since epoch)]\n"
	for i, values := range [][]int64{first, second} {
		h := hdr.New(1, 1e12, 3)
		for _, v := range values {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		encoded, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("Tag=response,%d.0,1.0,0.0,%s\n", i, encoded)
	}
	return text
}

// A merged log has in each bucket what the parts have there, in whichever intervals.
func TestMerged(t *testing.T) {
	reported := func(log string) string {
		return file(t, fmt.Sprintf("HTTP/1.1 200 OK\r\n\r\n{\"party\":{}}\n{\"result\":{},\"log\":%d}\n%sHTTP/1.1", len(log), log))
	}
	a, b := reported(logOf(t, []int64{1e6, 2e6}, []int64{5e6})), reported(logOf(t, []int64{1e6}, nil))
	for _, test := range []struct {
		merged, err string
	}{
		{logOf(t, []int64{1e6, 1e6, 2e6}, []int64{5e6}), ""},
		{logOf(t, []int64{1e6, 2e6}, []int64{5e6}), "1 differences"},
		{logOf(t, []int64{1e6, 1e6, 2e6, 5e6}, nil), ""},
		{logOf(t, []int64{1e6, 1e6, 3e6}, []int64{5e6}), "2 differences"},
		{"", "there is no histogram in it"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"merged", file(t, test.merged), a, b}, &out)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%v, want %q\n%s", err, test.err, &out)
		}
	}
	if err := run(t.Context(), []string{"merged", file(t, logOf(t, nil, nil)), file(t, "no result")}, &bytes.Buffer{}); err == nil {
		t.Error("a part without a result")
	}
}

// Requests and answers are saved as they are.
func TestServeAndRelay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server, relayed := freeport.Address(t), freeport.Address(t)
	requests, answers := filepath.Join(t.TempDir(), "requests"), filepath.Join(t.TempDir(), "answers")
	ended := make(chan error, 2)
	start := func(listen string, args ...string) {
		go func() { ended <- run(ctx, args, &bytes.Buffer{}) }()
		roles.Until(t, "somebody listens", func() bool {
			conn, err := net.Dial("tcp", listen)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
	start(server, "serve", "--listen", server, "--save", requests)
	start(relayed, "relay", "--listen", relayed, "--to", server, "--save", answers)
	began := time.Now()
	c := &http.Client{Transport: &http.Transport{}}
	for n := range 2 {
		r, err := c.Post(fmt.Sprintf("http://%s/%d", relayed, n), "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		_ = r.Body.Close()
	}
	c.CloseIdleConnections()
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	seen, repeated, others, err := read(requests)
	if err != nil || repeated > 0 || others > 0 || len(seen) != 2 {
		t.Fatalf("%v, %d, %d, %v", seen, repeated, others, err)
	}
	for n, r := range seen {
		if at := time.Unix(0, r.at); at.Before(began.Add(-time.Second)) || at.After(time.Now()) || r.from != "127.0.0.1" || !strings.HasPrefix(r.bytes, fmt.Sprintf("POST /%d HTTP/1.1\r\n", n)) || !strings.HasSuffix(r.bytes, "\r\n\r\nbody") {
			t.Errorf("%+v", r)
		}
	}
	if text, err := os.ReadFile(answers); err != nil || string(text) != strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 2) {
		t.Errorf("%q, %v", text, err)
	}
}
