package rest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestNothingIsMissed: a watcher that is cut off again and again, at any event, and comes
// back with the id it had last, knows the state in the end, by versions that never go
// back.
func TestNothingIsMissed(t *testing.T) {
	b := newBed(t, nil)
	const names, changes = 5, 150
	random := rand.New(rand.NewPCG(1, 2))
	order := make([]int, changes)
	for i := range order {
		order[i] = random.IntN(names)
	}
	written := make(chan map[string]float64)
	go func() {
		state := map[string]float64{}
		for i, n := range order {
			name := fmt.Sprintf("p%d", n)
			if i%10 == 9 && state[name] > 0 {
				b.do("DELETE", "/v1/policies/"+name, "")
				delete(state, name)
				continue
			}
			a := b.do("PUT", "/v1/policies/"+name, `{"rules":[]}`)
			state[name], _ = a.field(t, "version").(float64)
		}
		b.do("PUT", "/v1/policies/last", `{"rules":[]}`)
		state["last"] = 1
		written <- state
	}()
	known := map[string]float64{}
	reached := map[string]int64{} // the revision each was told at
	last, connections := "", 0
	for known["last"] == 0 {
		s := b.stream("kind=policy", "Last-Event-ID", last)
		connections++
		syncing := false
		for range 1 + random.IntN(12) {
			e := s.next()
			if e.id != "" {
				last = e.id
			}
			switch e.kind {
			case "resync":
				syncing, last = true, "" // as an empty id has clients do
				clear(known)
			case "synced":
				syncing = false
			case "put", "remove":
				var c changeEvent
				if err := json.Unmarshal([]byte(e.data), &c); err != nil {
					t.Fatal(err)
				}
				if !syncing && c.Revision < reached[c.Name] {
					t.Fatalf("%s at revision %d after %d", c.Name, c.Revision, reached[c.Name])
				}
				reached[c.Name] = c.Revision
				if known[c.Name] = float64(c.Version); e.kind == "remove" {
					delete(known, c.Name)
				}
			}
			if known["last"] != 0 {
				break
			}
		}
		s.resp.Body.Close()
	}
	want := <-written
	for name, version := range want {
		if known[name] != version {
			t.Errorf("%s: version %v, want %v", name, known[name], version)
		}
	}
	if len(known) != len(want) || connections < 3 {
		t.Errorf("knows %v after %d connections, want %v", known, connections, want)
	}
}
