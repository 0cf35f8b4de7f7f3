package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// put is an event that puts a configuration.
func put(name string, version int64) string {
	return fmt.Sprintf(`event: put
data: {"type":"put","kind":"config","namespace":"n","name":%q,"version":%d,"resource":{"namespace":"n","name":%[1]q,"content":""}}

`, name, version)
}

const (
	resync = "id: 0\nevent: resync\ndata: {}\n\n"
	synced = "id: e-7\nevent: synced\ndata: {}\n\n"
	whole  = "event: state\ndata: {\"whole\":true}\n\n"
)

// TestCutOff: a copy of everything that is cut off removes nothing, is not complete, and begins again. Streams with faults
// change nothing.
func TestCutOff(t *testing.T) {
	streams := []string{
		resync + put("a", 1) + put("b", 1) + synced + whole,
		put("b", 2) + whole,
		resync + put("c", 1),
		"event: put\ndata: {\"kind\":\"config\",\"namespace\":\"n\",\"name\":\"../d\"}\n\n" + whole,
		strings.Replace(put("d", 1), `"content"`, `"name":"e","content"`, 1) + whole,
		"event: state\ndata: {\"whole\":true,\"overdue\":[\"AA==\"]}\n\n",
		resync + put("c", 1) + synced + whole,
	}
	var n atomic.Int64
	asked, goOn := make(chan string, len(streams)+1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Last-Event-ID")
		w.Header().Set("Content-Type", "text/event-stream")
		at := int(n.Add(1))
		if at > 1 { // until the test has looked at what the streams before have changed
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write([]byte(streams[at-1]))
	}))
	defer server.Close()
	c := plane.Defaults()
	c.Primary = server.URL
	p, _ := planetest.Open(t, c)
	end, err := Start(t.Context(), Config{Servers: []string{server.URL}}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	names := func() (list []string) {
		l, err := p.List(t.Context(), planetest.Anybody, resource.Configs, "n", plane.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range l.Items {
			list = append(list, fmt.Sprint(i.Name, i.Version))
		}
		return list
	}
	for n, want := range []struct {
		token string
		names []string // when it is asked for
	}{
		{"", nil}, {"e-7", []string{"a1", "b1"}}, {"e-7", []string{"a1", "b2"}},
		{"", []string{"a1", "b2", "c1"}}, {"", []string{"a1", "b2", "c1"}}, {"", []string{"a1", "b2", "c1"}}, {"", []string{"a1", "b2", "c1"}}, {"e-7", []string{"c1"}},
	} {
		if token := <-asked; token != want.token {
			t.Errorf("stream %d: asked for what comes after %q, want %q", n, token, want.token)
		}
		if n == 0 {
			continue
		}
		if got := names(); !slices.Equal(got, want.names) {
			t.Errorf("stream %d: %q, want %q", n, got, want.names)
		}
		if n < len(streams) {
			goOn <- struct{}{}
		}
	}
	if f := p.Following(); f.At.IsZero() || f.Epoch != "e" {
		t.Errorf("%+v", f)
	}
}

// FuzzCopy: what is copied is a document of its name, byte by byte.
func FuzzCopy(f *testing.F) {
	f.Add("put", `{"kind":"config","namespace":"n","name":"a","version":1,"resource":{"namespace":"n","name":"a","content":"x"}}`)
	f.Add("put", `{"kind":"instance","namespace":"n","name":"s","id":"1","version":1,"resource":{"namespace":"n","service":"s","id":"1","content":null}}`)
	f.Add("remove", `{"kind":"policy","namespace":"n","name":"a","version":3}`)
	f.Fuzz(func(t *testing.T, kind, data string) {
		ref, c, err := parseCopy(kind, []byte(data))
		if err != nil {
			return
		}
		if ref.Check() != nil || kind != "put" && c.Body != nil || kind == "put" && (c.Version < 1 || !json.Valid(c.Body) || !strings.Contains(data, string(c.Body))) {
			t.Errorf("%s %q: %+v %d %q", kind, data, ref, c.Version, c.Body)
		}
	})
}

// TestAge: a copy is as old as its stream's state says, counted from the request.
func TestAge(t *testing.T) {
	c := plane.Defaults()
	c.Primary = "http://primary"
	p, _ := planetest.Open(t, c)
	f := follower{ctx: t.Context(), plane: p, withheld: map[resource.Ref]bool{}}
	f.begin()
	f.lost(errRenew)
	f.asked = f.asked.Add(-2 * time.Hour)
	if err := f.apply(event{kind: "state", data: []byte(`{"whole":true,"seconds":6600,"age_seconds":100}`)}); err != nil {
		t.Error(err)
	}
	if err := f.store(); !errors.Is(err, errRenew) {
		t.Error(err)
	}
	if got, want := p.Following().At, f.asked.Add(6500*time.Second); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if age := p.Age(); age < 700*time.Second {
		t.Errorf("its answers are %v old, and the copy %v", age, 700*time.Second)
	}
}
