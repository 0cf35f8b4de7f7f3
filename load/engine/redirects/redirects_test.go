package redirects

import (
	"errors"
	"testing"
	"time"

	"dyno/load/engine/record"
	"dyno/load/wire"
)

var errLost = errors.New("redirected to nowhere")

// A once follows one redirect, and fails without a place to go to.
type once struct{}

func (once) Follow(t *wire.Trail, status int) (bool, error) {
	switch {
	case status != 302 || t.Redirects > 0:
		return false, nil
	case len(t.Location) == 0:
		return false, errLost
	}
	t.Redirects++
	t.Request, t.Target = 1, append(t.Target[:0], t.Location...)
	return true, nil
}

// A redirect leads to the first place that the response names. The time of the first request stays.
func TestTrails(t *testing.T) {
	trails := New(once{}, 2, record.NewRecorder(record.NewCollector(1, time.Second, nil), 0, time.Second))
	x := record.Request{Status: 302, Written: 7}
	trails.Begin(1)
	if _, err := trails.Follow(1, &x, true); !errors.Is(err, errLost) {
		t.Errorf("%v, want %v", err, errLost)
	}
	trails.Note(1, []wire.MuxField{{Value: []byte("/a")}})
	trails.Note(1, []wire.MuxField{{Value: []byte("/b")}})
	if follows, err := trails.Follow(1, &x, true); !follows || err != nil {
		t.Fatalf("%v, %v", follows, err)
	}
	if request, parts := trails.Request(1); request != 1 || len(parts) != 1 || string(parts[0]) != "/a" || trails.Written(1) != 7 {
		t.Errorf("request %d of %q, first written at %d", request, parts, trails.Written(1))
	}
	x.Written = 9
	if follows, err := trails.Follow(1, &x, false); follows || err != nil || trails.Written(1) != 7 {
		t.Errorf("%v, %v, first written at %d", follows, err, trails.Written(1))
	}
	if trails.Begin(1); trails.all[1].Redirects != 0 {
		t.Error("the next request goes on where the last one was led")
	}
}
