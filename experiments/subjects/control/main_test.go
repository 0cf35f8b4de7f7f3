package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"dyno/experiments/subjects/control/formats"
	"dyno/internal/leak"
	"dyno/services/control"
	"dyno/services/control/format"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestFormats: the whole control plane takes and answers resources in each format.
func TestFormats(t *testing.T) {
	c := control.Defaults()
	c.Listen, c.Store.Dir, c.Store.NoSync, c.Formats = "127.0.0.1:0", t.TempDir(), true, append(c.Formats, more...)
	server, err := control.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	web := http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	want := func(status int, kind, method, path, body string, header ...string) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+server.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != status || answer.Header.Get("Content-Type") != kind {
			t.Fatalf("%s %s: %d %v %s: %v", method, path, answer.StatusCode, answer.Header, text, err)
		}
		return text
	}
	for name, f := range map[string]format.Format{"flatbuffers": formats.FlatBuffers, "gob": formats.Gob} {
		kind := "application/x-" + name
		text, err := f.Append(nil, &format.Document{
			Ref:    resource.Ref{Kind: resource.Policies, Name: name},
			Policy: &resource.Policy{Rules: []resource.Rule{{Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if made := want(201, "application/json", "POST", "/v1/policies", string(text), "Content-Type", kind); !bytes.Contains(made, []byte(`"requests_per_second":2.5`)) {
			t.Errorf("%s", made)
		}
		path := "/v1/policies/" + name
		d, err := format.Decode(f, want(200, kind, "GET", path, "", "Accept", "application/json;q=0.5, "+kind))
		if err != nil || d.Policy.Name != name || d.Policy.Rules[0].Limit.PerSecond != 2.5 {
			t.Errorf("%+v: %v", d, err)
		}
		want(422, "application/problem+json", "PUT", path, "damaged", "Content-Type", kind)
	}
}
