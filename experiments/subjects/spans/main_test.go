package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Spans count by name, with their seconds, and those of other names do not; what is no message is refused.
func TestSums(t *testing.T) {
	s := newSums([]string{"check", "etcd", "push"})
	post := func(body []byte) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/traces", bytes.NewReader(body)))
		return w.Code
	}
	span := func(name string, seconds uint64) *otlp.Span {
		return &otlp.Span{Name: name, StartTimeUnixNano: 1e9, EndTimeUnixNano: 1e9 + seconds*1e9}
	}
	body, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*otlp.ResourceSpans{{ScopeSpans: []*otlp.ScopeSpans{
		{Spans: []*otlp.Span{span("check", 1), span("etcd", 5), span("check", 2), span("other", 2)}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	if code := post(body); code != http.StatusOK {
		t.Error(code)
	}
	if code := post([]byte("none")); code != http.StatusBadRequest {
		t.Error(code)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"# TYPE check_total counter\n", "check_total 2\n", "check_seconds_total 3\n", "etcd_seconds_total 5\n", "push_total 0\n"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in %q", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "other") {
		t.Errorf("spans of a name that does not count: %q", w.Body)
	}
}
