package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The gateway joins both answers, and says so if a service fails.
func TestGateway(t *testing.T) {
	a, b := httptest.NewServer(answer("user")), httptest.NewServer(answer("1"))
	defer a.Close()
	for _, parallel := range []bool{false, true} {
		g := newGateway(a.URL, b.URL, parallel)
		w := httptest.NewRecorder()
		g(w, httptest.NewRequest(http.MethodGet, "/?id=7", nil))
		if body, _ := io.ReadAll(w.Body); w.Code != http.StatusOK || string(body) != "user 1\n" {
			t.Errorf("%d %q", w.Code, body)
		}
	}
	b.Close()
	w := httptest.NewRecorder()
	newGateway(a.URL, b.URL, false)(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("without a service: %d", w.Code)
	}
}
