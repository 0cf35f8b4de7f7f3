package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/exit"
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
	lines.Buffer(nil, 1<<20)
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
	if ended.Outcome == nil || ended.Outcome.Code != exit.Done && ended.Outcome.Code != exit.Invalid {
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
	if code := d.wait(t); code != exit.Done {
		t.Errorf("exit code %d\n%s", code, d.stderr.String())
	}
	if len(tree) < 3 || anyAlive(tree) {
		t.Errorf("of %d processes some still run", len(tree))
	}
	if f := open(t, filepath.Join(dir, "runs", started.ID)); f.Complete() || f.Run.Reason.English() != "interrupted by SIGINT" && !strings.Contains(f.Run.Reason.English(), "SIGINT") {
		t.Errorf("%q", f.Run.Reason)
	}
}

// If dyno ui is killed, the run ends in order: the user could not stop it any more.
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
	if f := open(t, filepath.Join(dir, "runs", started.ID)); !strings.Contains(f.Run.Reason.English(), "nobody follows the run any more") {
		t.Errorf("%q, %v", f.Run.Reason, f.Incomplete)
	}
}
