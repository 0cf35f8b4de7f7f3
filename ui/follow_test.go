package ui

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"dyno/results/rundir"
)

// elsewhere is a run that somebody else writes.
type elsewhere struct {
	t      testing.TB
	writer *rundir.Writer
	live   *os.File
}

func (b *bed) elsewhere(id string) *elsewhere {
	b.t.Helper()
	w, err := rundir.Create(b.path("runs", id), &rundir.Run{Name: "theirs", Plan: rundir.Plan{File: "theirs.yaml", Short: true}})
	check(b.t, err)
	live, err := os.Create(b.path("runs", id, rundir.LiveFile))
	check(b.t, err)
	check(b.t, syscall.Flock(int(live.Fd()), syscall.LOCK_EX)) //nolint:gosec // a descriptor is small
	return &elsewhere{b.t, w, live}
}

// send appends events to the live file.
func (o *elsewhere) send(events ...Event) {
	o.t.Helper()
	for _, e := range events {
		check(o.t, json.NewEncoder(o.live).Encode(e))
	}
}

// end ends the process.
func (o *elsewhere) end(run *rundir.Run) {
	o.t.Helper()
	if run == nil {
		check(o.t, o.writer.Close())
	} else {
		run.Name, run.Variants = "theirs", []rundir.Variant{{Name: "v"}}
		check(o.t, o.writer.Finish(run))
		check(o.t, os.Remove(o.live.Name()))
	}
	check(o.t, o.live.Close())
}

func TestRunOfAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		run  *rundir.Run // at the end; nil: the process dies
		want string
	}{
		{"valid", &rundir.Run{Complete: true, Valid: true}, `"code":0}`},
		{"invalid", &rundir.Run{Complete: true}, `"code":4}`},
		{"interrupted", &rundir.Run{}, `"code":-1}`},
		{"killed", nil, `"code":-1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, nil)
			events, _ := b.follow("")
			await(t, events, "state")
			o := b.elsewhere("theirs-1")
			o.send(Event{Begin: &Begin{Number: 1, Variant: "v"}}, Event{Second: &Second{Trial: 1, Throughput: 5}})
			e := await(t, events, "run")
			for _, want := range []string{`"id":"theirs-1"`, `"name":"theirs"`, `"experiment":"theirs.yaml"`, `"short":true`, `"elsewhere":true`} {
				if !strings.Contains(e.data, want) {
					t.Errorf("%s is not in %s", want, e.data)
				}
			}
			await(t, events, "begin")
			if e := await(t, events, "second"); !strings.Contains(e.data, `"throughput_per_second":5`) {
				t.Errorf("%+v", e)
			}
			if l := get[RunList](b, "/api/runs?state=running"); len(l.Runs) != 1 {
				t.Errorf("%+v", l)
			}
			for path, body := range map[string]string{"/api/runs/theirs-1/stop": "", "/api/runs": `{"experiment":"tame.yaml"}`} {
				if status, text := b.do(b.request("POST", path, body)); status != 409 {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
			o.send(Event{End: &TrialEnd{Number: 1, Variant: "v"}})
			o.end(c.run)
			await(t, events, "end")
			if e := await(t, events, "ended"); !strings.Contains(e.data, c.want) {
				t.Errorf("%s", e.data)
			}
		})
	}
}

// The end of the pages does not wait for a run that they do not own.
func TestCloseWhileFollowing(t *testing.T) {
	b := newBed(t, nil)
	events, _ := b.follow("")
	await(t, events, "state")
	o := b.elsewhere("theirs-1")
	await(t, events, "run")
	b.stopServing()
	for e := range events {
		if e.kind == "ended" {
			break
		}
	}
	o.end(nil)
}

// A file that begins again is read from its beginning, and other lines are left out.
func TestReadsLiveFile(t *testing.T) {
	b := newBed(t, nil)
	path := b.path("runs", "x", rundir.LiveFile)
	f := &following{runs: b.server.runs, id: "x"}
	var got []string
	more := func() string {
		got = nil
		f.more(func(e Event) { got = append(got, e.Begin.Variant) })
		return strings.Join(got, " ")
	}
	line := func(variant string) string { return `{"begin":{"variant":"` + variant + `"}}` + "\n" }
	if text := more(); text != "" {
		t.Errorf("without a file: %q", text)
	}
	write(t, path, line("a")+"nonsense\n"+line(strings.Repeat("b", longestLine))+line("c")+line("d")[:9])
	if text := more(); text != "a c" {
		t.Errorf("%q", text)
	}
	write(t, path, line("a")+"nonsense\n"+line(strings.Repeat("b", longestLine))+line("c")+line("d"))
	if text := more(); text != "d" {
		t.Errorf("the rest of a line: %q", text)
	}
	write(t, path, line("e"))
	if text := more(); text != "e" {
		t.Errorf("from the beginning: %q", text)
	}
	check(t, f.file.Close())
}
