package ui

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// apply updates a client's state as the page does.
func apply(t testing.TB, known **Live, e streamed) {
	t.Helper()
	into := func(v any) { check(t, json.Unmarshal([]byte(e.data), v)) }
	switch e.kind {
	case "state":
		var s struct{ Run *Live }
		into(&s)
		*known = s.Run
	case "run":
		*known = new(Live)
		into(*known)
	case "begin":
		(*known).Trial = new(Begin)
		into((*known).Trial)
	case "second":
		var s Second
		into(&s)
		(*known).Seconds = append((*known).Seconds, s)
	case "end":
		var end TrialEnd
		into(&end)
		(*known).Trial = nil
		(*known).Trials = append((*known).Trials, end)
	case "stopping", "ended":
		var o Live
		into(&o)
		o.Seconds, o.Trials, o.Omitted = (*known).Seconds, (*known).Trials, (*known).Omitted
		*known = &o
	default:
		t.Fatalf("event %s", e.kind)
	}
}

// Whenever a client comes, and however often it loses its connection, all clients have
// the same state in the end.
func TestClientsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBed(t, nil)
		type viewer struct {
			events <-chan streamed
			cut    func()
			known  *Live
			last   string
		}
		var viewers []*viewer
		_, x := b.start()
		trials := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch what := rapid.SampledFrom([]string{"begin", "second", "end", "come", "reconnect"}).Draw(rt, "what"); {
			case what == "begin":
				trials++
				x.send(Event{Begin: &Begin{Number: trials, Variant: "v"}})
			case what == "second":
				x.send(Event{Second: &Second{Trial: trials, Throughput: rapid.Float64Range(0, 1e9).Draw(rt, "throughput"), Latency: map[string]Latency{"response": {P50: 0.25}}}})
			case what == "end":
				x.send(Event{End: &TrialEnd{Number: trials, Variant: "v", Flags: []rundir.Flag{{Kind: "steal", Detail: new(texts.Verbatim("</script>"))}}}})
			case what == "come":
				v := &viewer{}
				v.events, v.cut = b.follow("")
				viewers = append(viewers, v)
			case len(viewers) > 0:
				v := viewers[rapid.IntRange(0, len(viewers)-1).Draw(rt, "viewer")]
				if v.last == "" { // it has had the state at least
					e := next(t, v.events)
					apply(t, &v.known, e)
					v.last = e.id
				}
				v.cut()
				for e := range v.events {
					apply(t, &v.known, e)
					v.last = e.id
				}
				v.events, v.cut = b.follow(v.last)
			}
		}
		x.end(Outcome{Code: 4, Message: "dyno: invalid"})
		b.server.stage.mu.Lock()
		gone := b.server.stage.gone
		b.server.stage.mu.Unlock()
		<-gone
		text, err := json.Marshal(b.server.stage.run)
		check(t, err)
		var want Live
		check(t, json.Unmarshal(text, &want))
		for i, v := range viewers {
			for v.known == nil || v.known.Outcome == nil {
				apply(t, &v.known, next(t, v.events))
			}
			if !reflect.DeepEqual(*v.known, want) {
				rt.Errorf("viewer %d of %d knows\n%+v, want\n%+v", i+1, len(viewers), *v.known, want)
			}
			v.cut()
		}
	})
}

func TestLive(t *testing.T) {
	b := newBed(t, nil)
	events, _ := b.follow("")
	if e := await(t, events, "state"); e.data != `{"run":null}` || e.id == "" {
		t.Errorf("%+v", e)
	}
	id, x := b.start()
	if e := await(t, events, "run"); !strings.Contains(e.data, `"id":"`+id+`"`) {
		t.Errorf("%+v", e)
	}
	if l := get[RunList](b, "/api/runs"); l.Total != 0 { // its folder is the process's to make
		t.Errorf("%+v", l)
	}
	b.addRun(id, func(r *rundir.Run) { r.Complete = false })
	b.fresh()
	if l := get[RunList](b, "/api/runs?state=running"); len(l.Runs) != 1 || l.Runs[0].State != Running {
		t.Errorf("%+v", l)
	}
	x.send(Event{Begin: &Begin{Number: 1, Variant: "v"}})
	await(t, events, "begin")
	if status, _ := b.do(b.request("POST", "/api/runs/other/stop", "")); status != 409 {
		t.Errorf("stop of another run: %d", status)
	}
	for n := 1; n <= 2; n++ {
		if status, text := b.do(b.request("POST", "/api/runs/"+id+"/stop", "")); status != 202 {
			t.Errorf("stop: %d %s", status, text)
		}
		if got := <-x.stops; got != n {
			t.Errorf("stop %d, want %d", got, n)
		}
	}
	await(t, events, "stopping")
	if e := await(t, events, "ended"); !strings.Contains(e.data, `"code":-1,"message":"killed"`) {
		t.Errorf("%+v", e)
	}
	if status, _ := b.do(b.request("POST", "/api/runs/"+id+"/stop", "")); status != 409 {
		t.Errorf("stop of what has ended: %d", status)
	}
	if l := get[RunList](b, "/api/runs?state=incomplete"); len(l.Runs) != 1 {
		t.Errorf("%+v", l)
	}
	again, x := b.start()
	if again == id {
		t.Errorf("the same ID twice: %s", id)
	}
	await(t, events, "run")
	x.end(Outcome{})
	await(t, events, "ended")
}

// A client whose last event has been dropped gets a gap event.
func TestGap(t *testing.T) {
	b := newBed(t, nil)
	events, _ := b.follow("dyno:another-7")
	await(t, events, "gap")
}

// Clients beyond the limit are refused, and do not get the state.
func TestTooManyStreams(t *testing.T) {
	b := newBed(t, nil)
	for range maxStreams {
		events, _ := b.follow("")
		await(t, events, "state")
	}
	status, text := b.do(b.request("GET", "/api/live", ""))
	if status != http.StatusServiceUnavailable || strings.Contains(text, "state") {
		t.Errorf("%d %s", status, text)
	}
}

// The data of a long run is bounded.
func TestLongRun(t *testing.T) {
	b := newBed(t, nil)
	_, x := b.start()
	for i := range keptSeconds + 5 {
		x.send(Event{Second: &Second{Trial: i}})
	}
	for i := range keptTrials + 7 {
		x.send(Event{End: &TrialEnd{Number: i}})
	}
	events, _ := b.follow("")
	var known *Live
	apply(t, &known, await(t, events, "state"))
	if len(known.Seconds) != keptSeconds || known.Seconds[0].Trial != 5 || len(known.Trials) != keptTrials || known.Trials[0].Number != 7 || known.Omitted != 7 {
		t.Errorf("%d seconds from %d, %d trials, %d left out", len(known.Seconds), known.Seconds[0].Trial, len(known.Trials), known.Omitted)
	}
	x.end(Outcome{})
}

// At the end the run gets time to end in order, but no more than that.
func TestStageCloses(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			runner := &puppeteer{}
			s, err := newStage(runner, slog.New(slog.DiscardHandler), func() {})
			check(t, err)
			defer s.hub.Close()
			check(t, s.start(Live{ID: "x"}, Launch{}))
			x := runner.latest()
			start := time.Now()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				s.close(time.Minute)
			}()
			<-x.stops
			if obeys {
				time.Sleep(time.Second)
				x.end(Outcome{Code: 130})
			}
			<-closed
			took, stops := time.Since(start), len(x.stops)
			if obeys && (took != time.Second || stops != 0) || !obeys && (took != time.Minute || stops != 1) {
				t.Errorf("obeys %v: %v, %d more stops", obeys, took, stops)
			}
			if err := s.start(Live{ID: "y"}, Launch{}); err == nil {
				t.Error("a run began after the end")
			}
		})
	}
}
