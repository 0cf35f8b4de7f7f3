package control

import (
	"bufio"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A sampled change of a policy has spans of its check, of the store and of its push to a watcher, in the trace of its
// caller. Others have none.
func TestTraces(t *testing.T) {
	const sampled, unsampled = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	var mu sync.Mutex // guards got
	got := map[string][]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var spans collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &spans)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range spans.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					id := hex.EncodeToString(s.TraceId)
					got[id] = append(got[id], s.Name)
				}
			}
		}
	}))
	defer receiver.Close()
	c := config(t)
	c.TraceEndpoint, c.TraceRatio = receiver.URL+"/v1/traces", 0
	s, end := serving(t, c)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := "http://" + s.Addr().String()
	call := func(method, path, trace, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("traceparent", trace)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	stream := call("GET", "/v1/watch", "", "")
	defer stream.Body.Close()
	events := bufio.NewScanner(stream.Body)
	until := func(text string) {
		t.Helper()
		for events.Scan() {
			if strings.Contains(events.Text(), text) {
				return
			}
		}
		t.Fatalf("no event with %s: %v", text, events.Err())
	}
	until("synced")
	for name, trace := range map[string]string{"traced": "00-" + sampled + "-b7ad6b7169203331-01", "plain": "00-" + unsampled + "-b7ad6b7169203331-00"} {
		if answer := call("POST", "/v1/policies", trace, `{"name":"`+name+`","rules":[]}`); answer.StatusCode != http.StatusCreated || answer.Body.Close() != nil {
			t.Fatal(answer.Status)
		}
		until(name)
	}
	end() // sends what waits
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(got[sampled])
	if want := []string{"check", "createPolicy", "etcd", "push"}; !slices.Equal(got[sampled], want) || len(got) != 1 {
		t.Errorf("%v: want %v of %s alone", got, want, sampled)
	}
}
