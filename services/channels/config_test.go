package channels

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/fields"
	"dyno/internal/settings"
)

const example = `
seed: 7
drain_timeout: 3s
channels:
  - name: sensors
    source: {kind: tcp, address: "127.0.0.1:7001", framing: length}
    buffer: {records: 100, when_full: drop-oldest}
    sink: {kind: tcp, address: "127.0.0.1:7002", format: framed}
  - name: applog
    source: {kind: file, path: /var/log/app.log, state: /var/lib/relay/app.json}
    sink: {kind: file, path: /srv/app.log, sync: always}
  - name: console
    source: {kind: stdin}
    sink: {kind: stdout}
`

// parse reads a configuration as the program does.
func parse(t *testing.T, text string) (Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("f.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := fields.Default[Config]()
	s := settings.New(&c)
	s.File = "f.yaml"
	s.Read()
	return c, s.Validate(c.Check)
}

func TestParseConfig(t *testing.T) {
	got, err := parse(t, example)
	if err != nil {
		t.Fatal(err)
	}
	channel := func(name string, source Source, buffer Buffer, sink Sink) Channel {
		return Channel{Name: name, Source: orDefault(source), Buffer: orDefault(buffer), Sink: orDefault(sink)}
	}
	want := Config{Seed: 7, DrainTimeout: 3 * time.Second, Channels: []Channel{
		channel("sensors", Source{Kind: TCP, Address: "127.0.0.1:7001", Framing: Length}, Buffer{Records: 100, WhenFull: DropOldest},
			Sink{Kind: TCP, Address: "127.0.0.1:7002", Format: Framed}),
		channel("applog", Source{Kind: File, Path: "/var/log/app.log", State: "/var/lib/relay/app.json"}, Buffer{},
			Sink{Kind: File, Path: "/srv/app.log", Sync: SyncAlways}),
		channel("console", Source{Kind: Stdin}, Buffer{}, Sink{Kind: Stdout}),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What help and the manual show is accepted.
func TestExample(t *testing.T) {
	manual, err := os.ReadFile("../../docs/services/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "```yaml\n"+Example+"```\n") {
		t.Error("docs/services/channels.md does not show Example")
	}
	if _, err := parse(t, Example); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string // their fields
	}{
		"nothing": {"seed: 1\n", []string{"channels"}},
		"missing": {"channels: [{}]\n", []string{"channels[0].name", "channels[0].source", "channels[0].sink"}},
		"values": {`
channels:
  - name: a b
    source: {kind: tcp, address: "0.0.0.0:1", path: /x}
    sink: {kind: file, path: /y, window: 1}
  - name: b
    source: {kind: file, path: /x}
    buffer: {bytes: 10, when_full: disconnect}
    sink: {kind: file, path: /x, retry_min: 2s, retry_max: 1s}
`, []string{
			"channels[0].name", "channels[0].source.address", "channels[0].source.path", "channels[0].sink.window",
			"channels[1].source.state", "channels[1].buffer.bytes", "channels[1].buffer.when_full", "channels[1].sink.path", "channels[1].sink.retry_max",
		}},
		"together": {`
channels:
  - name: b
    source: {kind: stdin, framing: length}
    sink: {kind: tcp, address: "host", ack_timeout: 1s}
  - name: b
    source: {kind: stdin, framing: framed}
    sink: {kind: tcp, address: "127.0.0.1:0", format: framed, window: 9999}
  - name: d
    source: {kind: tcp, address: "127.0.0.1:0", framing: framed}
    buffer: {when_full: disconnect}
    sink: {kind: tcp, address: "127.0.0.1:9"}
`, []string{
			"channels[0].sink.address", "channels[0].sink.ack_timeout", "channels[0].sink.format",
			"channels[1].name", "channels[1].source.kind", "channels[1].source.framing", "channels[1].sink.address", "channels[1].sink.window",
			"channels[2].buffer.when_full", "channels[2].sink.format",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.in)
			var faults *fields.Faults
			if !errors.As(err, &faults) {
				t.Fatal(err)
			}
			var got []string
			for _, f := range faults.Faults {
				got = append(got, f.Field)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
		})
	}
}
