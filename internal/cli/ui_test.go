package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/cli/command"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
	"dyno/ui"
)

// A page talks to dyno ui as the browser does.
type page struct {
	t          *testing.T
	url, token string
}

// openPage starts dyno ui in a folder with one of experiments.
func openPage(t *testing.T, dir string) (*dyno, *page) {
	t.Helper()
	d := begin(t, dir, "ui", "--experiments", "experiments", "--listen", "127.0.0.1:0")
	p := &page{t: t}
	until(t, "it says where it is", func() bool {
		_, rest, _ := strings.Cut(d.stderr.String(), "open in a browser: ")
		line, _, whole := strings.Cut(rest, "\n")
		p.url, p.token, _ = strings.Cut(line, "/#token=")
		return whole
	})
	return d, p
}

func (p *page) do(ctx context.Context, method, path, body string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// call reads an answer with the status that it must have.
func (p *page) call(method, path, body string, status int, into any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hangGuard)
	defer cancel()
	resp := p.do(ctx, method, path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		p.t.Fatalf("%s %s: %s %s, %v", method, path, resp.Status, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
}

// live reads events until one of this kind has come, and returns all.
func (p *page) live(until string) (kinds []string, all []string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hangGuard)
	defer cancel()
	resp := p.do(ctx, "GET", "/api/live", "")
	defer resp.Body.Close()
	kind := ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = text
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			kinds, all = append(kinds, kind), append(all, text)
			if kind == until {
				return kinds, all
			}
		}
	}
	p.t.Fatalf("the stream ended before %s: %v, %v", until, kinds, lines.Err())
	return nil, nil
}

const brief = `name: brief
target: {protocol: tcp, start: [dyno, serve, echo, --tcp, "127.0.0.1:{{port}}"]}
load: {closed: {connections: 2, think: 1ms}, warmup: 0, window: "{{length}}"}
observe: {kernel: none}
compare: {base: one, variants: {one: {length: 1s}, two: {length: 1s}}}
design: {rounds: 8, control: false}
short: {rounds: 1}
`

// A run that is started on the page is followed there to its end, and then is in the
// list. Another one is stopped. When the page's server ends, so does everything it
// started.
func TestUI(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"experiments", "runs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "experiments", "brief.yaml"), brief)
	write(t, filepath.Join(dir, "experiments", "long.yaml"), long)
	d, p := openPage(t, dir)

	var started struct{ ID string }
	p.call("POST", "/api/runs", `{"experiment":"brief.yaml","short":true,"set":{"length":"1200ms"}}`, http.StatusAccepted, &started)
	kinds, all := p.live("ended")
	var ended ui.Live
	if err := json.Unmarshal([]byte(all[len(all)-1]), &ended); err != nil {
		t.Fatal(err)
	}
	if ended.Outcome == nil || ended.Outcome.Code != command.ExitDone && ended.Outcome.Code != command.ExitInvalid {
		t.Fatalf("%+v", ended.Outcome)
	}
	count := map[string]int{}
	for _, k := range kinds[1:] {
		count[k]++
	}
	var state struct{ Run ui.Live } // some of it may have happened before the client came
	if err := json.Unmarshal([]byte(all[0]), &state); err != nil {
		t.Fatal(err)
	}
	if trials, seconds := len(state.Run.Trials)+count["end"], len(state.Run.Seconds)+count["second"]; trials != 2 || seconds < 4 {
		t.Errorf("%d trials and %d seconds: %v", trials, seconds, kinds)
	}
	var list ui.RunList
	p.call("GET", "/api/runs", "", http.StatusOK, &list)
	if len(list.Runs) != 1 || list.Runs[0].ID != started.ID || !list.Runs[0].Short || !slices.Contains([]ui.State{ui.Valid, ui.Disturbed, ui.Invalid}, list.Runs[0].State) {
		t.Errorf("%+v", list.Runs)
	}
	run := open(t, filepath.Join(dir, "runs", started.ID)).Run
	want := []string{"dyno", "run", "--quiet", "--out", "runs/" + started.ID, "--short", "--set", "length=1200ms", "--", "experiments/brief.yaml"}
	if !reflect.DeepEqual(run.Command, want) {
		t.Errorf("to repeat it: %q", run.Command)
	}

	p.call("POST", "/api/runs", `{"experiment":"long.yaml"}`, http.StatusAccepted, &started)
	p.live("second")
	p.call("POST", "/api/runs", `{"experiment":"brief.yaml"}`, http.StatusConflict, nil)
	p.call("POST", "/api/runs/"+started.ID+"/stop", "", http.StatusAccepted, nil)
	_, all = p.live("ended")
	if last := all[len(all)-1]; !strings.Contains(last, `"code":130`) || !strings.Contains(last, "interrupted by SIGINT") {
		t.Errorf("%s", last)
	}
	if f := open(t, filepath.Join(dir, "runs", started.ID)); f.Complete() || f.Trials[0].Counts.OK == 0 {
		t.Errorf("%v, %+v", f.Incomplete, f.Trials[0].Counts)
	}

	p.call("POST", "/api/runs", `{"experiment":"long.yaml"}`, http.StatusAccepted, &started)
	p.live("second")
	tree := below(t, d.cmd.Process.Pid)
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(t); code != command.ExitDone {
		t.Errorf("exit code %d\n%s", code, d.stderr.String())
	}
	if len(tree) < 3 || anyAlive(tree) {
		t.Errorf("of %d processes some still run", len(tree))
	}
	if f := open(t, filepath.Join(dir, "runs", started.ID)); f.Complete() || f.Run.Reason != "interrupted by SIGINT" && !strings.Contains(f.Run.Reason, "SIGINT") {
		t.Errorf("%q", f.Run.Reason)
	}
}

// If dyno ui is killed, the run ends in order, because nobody could stop it any more.
func TestUIKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "experiments"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "experiments", "long.yaml"), long)
	d, p := openPage(t, dir)
	var started struct{ ID string }
	p.call("POST", "/api/runs", `{"experiment":"long.yaml"}`, http.StatusAccepted, &started)
	p.live("second")
	tree := below(t, d.cmd.Process.Pid)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.wait(t)
	until(t, "nothing is left", func() bool { return !anyAlive(tree) })
	if f := open(t, filepath.Join(dir, "runs", started.ID)); !strings.Contains(f.Run.Reason, "nobody follows the run any more") {
		t.Errorf("%q, %v", f.Run.Reason, f.Incomplete)
	}
}

// fed returns what a feed tells of an experiment.
func fed(t *testing.T, play func(*feed)) (events []ui.Event) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := newFeed(w, func(err error) { t.Error(err) })
	f.now = func() time.Time { return time.Unix(7, 0) }
	play(f)
	f.close()
	follow(r, func(e ui.Event) { events = append(events, e) })
	return events
}

func TestFeed(t *testing.T) {
	trial3 := &rundir.Trial{Number: 3, Round: 1, Variant: "v", Complete: true, Counts: rundir.Counts{Sent: 9, OK: 7}}
	half := 500 * time.Millisecond
	events := fed(t, func(f *feed) {
		f.Begin(trial.Planned{Number: 3, Of: 4, Round: 1, Rounds: 2, Variant: "v", Purpose: rundir.PurposeProbe, Rate: 50, Width: 1})
		f.Interval(engine.Interval{Length: half, Completed: 10})
		f.Interval(intervalOf(half, half, 20, 1, 200))
		f.Interval(intervalOf(2*half, half/2, 5, 0, 5))
		f.End(trial3, []rundir.Flag{{Kind: "steal", Detail: "<b>"}})
		f.Interval(engine.Interval{Length: half})
		f.End(trial3, nil)
	})
	if len(events) != 5 || events[4].End == nil {
		t.Fatalf("%+v", events)
	}
	if b := events[0].Begin; b == nil || *b.Rate != 50 || b.Number != 3 || b.Of != 4 || b.Variant != "v" {
		t.Errorf("%+v", b)
	}
	s := events[1].Second
	if s == nil || s.Trial != 3 || s.Seconds != 1 || s.Elapsed != 1 || s.Throughput != 30 || s.Failed != 1 || !s.At.Equal(time.Unix(7, 0)) {
		t.Fatalf("%+v", s)
	}
	if l := s.Latency["response"]; len(s.Latency) != 1 || l.P50 < 0.00099 || l.P50 > 0.00101 || l.P90 == nil || l.P99 == nil || l.P999 != nil {
		t.Errorf("%+v", s.Latency)
	}
	if s := events[2].Second; s == nil || s.Seconds != 0.25 || s.Throughput != 20 || s.Latency["response"].P90 != nil {
		t.Errorf("the rest of a second: %+v", s)
	}
	if e := events[3].End; e == nil || e.Failed != 2 || len(e.Flags) != 1 || e.Flags[0].Detail != "<b>" || e.Clock != "response" {
		t.Errorf("%+v", e)
	}
	if events := fed(t, func(f *feed) {
		f.End(&rundir.Trial{Streams: &rundir.Streams{Delivery: rundir.Quantiles{Count: 4}}}, nil)
	}); events[0].End.Clock != "delivery" || events[0].End.Latency.Count != 4 {
		t.Errorf("%+v", events[0].End)
	}
}

// A second of the window without an answer is distinguished from one of the warm-up: it has
// latencies, though of no clock.
func TestFeedOfPause(t *testing.T) {
	events := fed(t, func(f *feed) {
		f.Begin(trial.Planned{Number: 1, Warmup: time.Second})
		for n := range 2 {
			f.Interval(engine.Interval{Start: time.Duration(n) * time.Second, Length: time.Second})
		}
	})
	if len(events) != 3 || events[1].Second.Latency != nil || events[2].Second.Latency == nil {
		t.Errorf("%+v", events)
	}
}

// A reader that does not read holds up no interval, and a feed tells once that one is gone.
func TestFeedWithoutReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	f := newFeed(w, func(err error) { gone <- err })
	for range 2 * feedQueue { // returns: more than the pipe and the queue hold
		f.Interval(intervalOf(0, time.Second, 1, 0, 5000))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f.close()
	if err := <-gone; !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
}

// A live file is there from the first event to the end, and does not grow beyond its bound.
func TestLiveFile(t *testing.T) {
	l := &liveFile{path: filepath.Join(t.TempDir(), "run", rundir.LiveFile)}
	if _, err := l.Write([]byte("early\n")); err == nil {
		t.Error("it was written without its folder")
	}
	if err := os.Mkdir(filepath.Dir(l.path), 0o755); err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", maxLive/4) + "\n")
	for n, want := range []int{1, 2, 3, 1, 2} {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(l.path); err != nil || len(text) != want*len(line) {
			t.Errorf("after %d lines: %d bytes, %v", n+1, len(text), err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left over: %v", err)
	}
	if err := (&liveFile{path: l.path}).Close(); err != nil {
		t.Errorf("without an event: %v", err)
	}
}

func intervalOf(start, length time.Duration, completed, failed uint64, values int) engine.Interval {
	i := engine.Interval{Start: start, Length: length, Completed: completed, ByKind: [wire.Kinds]uint64{wire.Status: failed}}
	i.Latency[engine.Response] = hist.New()
	i.Latency[engine.Response].RecordN(int64(time.Millisecond), int64(values))
	return i
}

func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"", "{}\n", `{"begin":{"number":1}}` + "\n", "nonsense\n{\"end\":{}}", strings.Repeat("x", 70_000) + "\n{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := strings.NewReader(string(text))
		events := 0
		follow(iotest.OneByteReader(r), func(ui.Event) { events++ })
		if r.Len() > 0 {
			t.Error("not read to its end")
		}
		if events > strings.Count(string(text), "\n")+1 {
			t.Errorf("%d events", events)
		}
	})
}

func TestRunArgs(t *testing.T) {
	args, err := runArgs(ui.Launch{File: "-x.yaml", Dir: "runs/x", Set: map[string]string{"b": "1,2", "a": "p=q,r=s"}})
	want := []string{"run", "--quiet", "--out", "runs/x", "--set", `"a=p=q,r=s"`, "--set", "b=1,2", "--", "-x.yaml"}
	if err != nil || !reflect.DeepEqual(args, want) {
		t.Errorf("%q, %v", args, err)
	}
	a := &app{}
	cmd := a.runCommand()
	if err := cmd.ParseFlags(args[1:]); err != nil {
		t.Fatal(err)
	}
	if set, err := cmd.Flags().GetStringToString("set"); err != nil || set["a"] != "p=q,r=s" || set["b"] != "1,2" || len(set) != 2 {
		t.Errorf("%q, %v", set, err)
	}
}

func TestTail(t *testing.T) {
	var x tail
	for _, part := range []string{strings.Repeat("a", maxSaid), "é", " end \n"} {
		if n, err := x.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if s := x.String(); !strings.HasSuffix(s, "aé end") || len(s) > maxSaid {
		t.Errorf("%d bytes, …%q", len(s), s[len(s)-9:])
	}
}

// A launch that is not possible is an error.
func TestLaunchFails(t *testing.T) {
	if _, err := (launcher{"/none"}).Start(ui.Launch{}, func(ui.Event) {}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
