package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

// TestDo: if a server does not answer for the control plane, the next one gets the request, with an equal key. A
// refusal is returned.
func TestDo(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]int // by host; 0 does not answer
		method  string
		want    int // the status; 0 is that nobody answers
		asked   int
	}{
		"both":           {map[string]int{"a": 200, "b": 200}, "GET", 200, 1},
		"one away":       {map[string]int{"a": 0, "b": 200}, "PUT", 200, 0},
		"one overloaded": {map[string]int{"a": 503, "b": 200}, "PUT", 200, 0},
		"refused":        {map[string]int{"a": 404, "b": 404}, "GET", 404, 1},
		"nobody":         {map[string]int{"a": 0, "b": 503}, "PUT", 0, 2},
	} {
		var keys []string
		f := &fake{answer: func(_ int, r *http.Request) *http.Response {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if code := c.answers[r.URL.Host]; code != 0 {
				return status(code, `{"title":"x","detail":"y"}`)
			}
			return nil
		}}
		client := newClient(t, f, func(c *Config) { c.Servers = []string{"http://a", "http://b"} })
		answer, err := client.Do(t.Context(), Request{Method: c.method, Path: "/v1/x", Body: "x"})
		var p *Problem
		var nobody *Unreachable
		switch {
		case c.want == 0 && !errors.As(err, &nobody), c.want >= 400 && (!errors.As(err, &p) || p.Status != c.want),
			c.want == 200 && (err != nil || answer.Status != 200):
			t.Errorf("%s: %v, %v", name, answer, err)
		}
		if err == nil {
			answer.Body.Close()
		}
		if c.asked > 0 && len(keys) != c.asked || (keys[0] == "") != (c.method == "GET") || len(keys) > 1 && keys[0] != keys[1] {
			t.Errorf("%s: asked with keys %q", name, keys)
		}
		client.Close()
	}
}

// TestDoRefusesOtherText: text that is not UTF-8 is neither sent nor changed.
func TestDoRefusesOtherText(t *testing.T) {
	f := &fake{answer: func(int, *http.Request) *http.Response { return status(200, "{}") }}
	client := newClient(t, f, func(c *Config) { c.Servers = []string{"http://a", "http://b"} })
	defer client.Close()
	for _, r := range []Request{
		{Body: map[string]any{"content": "a\xff"}}, {Body: map[string]string{"a\xff": ""}}, {Body: struct{ Labels []string }{[]string{"\xed\xa0\x80"}}},
		{Query: url.Values{"client": {"ann\xff"}}}, {Query: url.Values{"\xff": {"x"}}},
	} {
		r.Method, r.Path = http.MethodPut, "/v1/configs/a"
		if answer, err := client.Do(t.Context(), r); !errors.Is(err, ErrText) {
			t.Errorf("%+v: %v, %v", r, answer, err)
		}
	}
	if asked, _, _ := f.record(); len(asked) != 0 {
		t.Errorf("requests were sent: %q", asked)
	}
}

// TestDoIsBounded: an answer has RequestTimeout, its body included, unless it is a stream.
func TestDoIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ int, r *http.Request) *http.Response {
			answer, _ := stream(r)
			return answer
		}}
		c := newClient(t, f, nil)
		defer c.Close()
		began := time.Now()
		answer, err := c.Do(t.Context(), Request{Method: "GET", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err == nil || time.Since(began) != c.cfg.RequestTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		answer.Body.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if answer, err = c.Do(ctx, Request{Method: "GET", Path: "/", Stream: true}); err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.ReadAll(answer.Body); err == nil || time.Since(began) != time.Hour+c.cfg.RequestTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
