package channels

import (
	"os"
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
	c = c.WithDefaults()
	return c, s.Validate(c.Check)
}

func TestParseConfig(t *testing.T) {
	got, err := parse(t, example)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Seed:         7,
		DrainTimeout: 3 * time.Second,
		Channels: []Channel{
			{
				Name:   "sensors",
				Source: Source{Kind: TCP, Address: "127.0.0.1:7001", Framing: Length, MaxRecordBytes: 65536, MaxConnections: 1024},
				Buffer: Buffer{Records: 100, Bytes: 16 << 20, WhenFull: DropOldest},
				Sink: Sink{Kind: TCP, Address: "127.0.0.1:7002", Format: Framed, DialTimeout: 5 * time.Second, Window: 50,
					AckTimeout: 10 * time.Second, RetryMin: 50 * time.Millisecond, RetryMax: 5 * time.Second},
			},
			{
				Name: "applog",
				Source: Source{Kind: File, Path: "/var/log/app.log", State: "/var/lib/relay/app.json", Framing: Lines, MaxRecordBytes: 65536,
					SaveEvery: time.Second, From: FromBeginning, RotateWait: time.Second, Poll: time.Second},
				Buffer: Buffer{Records: 4096, Bytes: 16 << 20, WhenFull: Block},
				Sink:   Sink{Kind: File, Path: "/srv/app.log", Format: Raw, Sync: SyncAlways, RetryMin: 50 * time.Millisecond, RetryMax: 5 * time.Second},
			},
			{
				Name:   "console",
				Source: Source{Kind: Stdin, Framing: Lines, MaxRecordBytes: 65536},
				Buffer: Buffer{Records: 4096, Bytes: 16 << 20, WhenFull: Block},
				Sink:   Sink{Kind: Stdout, Format: Raw},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What help and the manual show is accepted.
func TestExample(t *testing.T) {
	manual, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "```yaml\n"+Example+"```\n") {
		t.Error("docs/channels.md does not show Example")
	}
	if _, err := parse(t, Example); err != nil {
		t.Error(err)
	}
}

func TestParseConfigLocatesEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"not yaml":      {"channels: [", []string{"f.yaml:1:"}},
		"unknown field": {"channels:\n  - {name: x, source: {kind: stdin}, sink: {kind: stdout}, titel: x}\n", []string{`f.yaml:2:60: channels[0].titel: unknown field; known here: name, source, buffer, sink`}},
		"meant":         {"channels:\n  - name: x\n    source: {kind: stdin, framings: 1}\n    sinc: {}\n", []string{`channels[0].source.framings: unknown field; did you mean "framing"?`, `channels[0].sinc: unknown field; did you mean "sink"?`}},
		"wrong type":    {"seed: soon\n", []string{`f.yaml:1:7: seed: want a whole number, have the text "soon"`, "channels: there is none"}},
		"missing":       {"channels: [{}]\n", []string{"channels[0].name: is missing", "channels[0].source: is missing", "channels[0].sink: is missing"}},
		"nothing":       {"seed: 1\n", []string{"channels: there is none"}},
		"many": {`
channels:
  - name: a b
    source: {kind: tcp, address: "0.0.0.0:1", path: /x}
    sink: {kind: pigeon}
  - name: b
    source:
      kind: file
      path: /x
    buffer: {records: -1, bytes: 10, when_full: disconnect}
    sink: {kind: file, path: /x, sync: never, sync_every: 1s, retry_min: 2s, retry_max: 1s}
  - name: b
    source: {kind: stdin, framing: length}
    sink: {kind: tcp, address: "host", ack_timeout: 1s}
  - name: c
    source: {kind: stdin, framing: words}
    sink: {kind: tcp, address: "127.0.0.1:0", format: framed, window: 9999}
  - name: d
    source: {kind: tcp, address: "127.0.0.1:0", framing: framed}
    buffer: {when_full: disconnect}
    sink: {kind: tcp, address: "127.0.0.1:9"}
`, []string{
			`f.yaml:3:11: channels[0].name: "a b"`,
			`f.yaml:4:53: channels[0].source.path: has no effect here`,
			`f.yaml:4:34: channels[0].source.address: "0.0.0.0:1" can be reached`,
			`f.yaml:5:18: channels[0].sink.kind: "pigeon" is not possible`,
			`f.yaml:10:23: channels[1].buffer.records: -1 is too little`,
			`f.yaml:10:34: channels[1].buffer.bytes: 10 is too little; at least max_record_bytes, 65536`,
			`f.yaml:10:49: channels[1].buffer.when_full: disconnect: a source of kind file`,
			`channels[1].source.state: is missing`,
			`f.yaml:11:30: channels[1].sink.path: path /x is used by channels[1].source.path already`,
			`f.yaml:11:59: channels[1].sink.sync_every: has no effect here`,
			`f.yaml:11:89: channels[1].sink.retry_max: 1s is too little; at least retry_min, 2s`,
			`f.yaml:12:11: channels[2].name: name b is used by channels[1].name already`,
			`channels[2].sink.format: raw: records with a length`,
			`f.yaml:14:32: channels[2].sink.address: "host" is not an address`,
			`f.yaml:14:53: channels[2].sink.ack_timeout: has no effect here`,
			`f.yaml:16:20: channels[3].source.kind: standard input is used by channels[2].source.kind already`,
			`f.yaml:16:36: channels[3].source.framing: "words" is not possible`,
			`f.yaml:17:32: channels[3].sink.address: "127.0.0.1:0" has no port`,
			`f.yaml:17:71: channels[3].sink.window: 9999 is too much; at most the buffer's records, 4096`,
			`f.yaml:20:25: channels[4].buffer.when_full: disconnect: a framed peer would send`,
			`channels[4].sink.format: raw: records with a length`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.in)
			if err == nil {
				t.Fatal("no fault found")
			}
			got := strings.Split(err.Error(), "\n")
			for _, want := range c.want {
				found := false
				for _, line := range got {
					found = found || strings.Contains(line, want)
				}
				if !found {
					t.Errorf("not reported: %s", want)
				}
			}
			if len(got) != len(c.want) || t.Failed() {
				t.Errorf("%d faults, want %d:\n%v", len(got), len(c.want), err)
			}
		})
	}
}

func TestAllowRemote(t *testing.T) {
	for address, remote := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "localhost:0": false, "127.8.8.8:0": false,
		":0": true, "[::]:0": true, "192.0.2.1:0": true, "example.org:0": true} {
		c := Config{Channels: []Channel{{Name: "a", Source: Source{Kind: TCP, Address: address}, Sink: Sink{Kind: Stdout}}}}.WithDefaults()
		if err := c.Validate(); (err != nil) != remote {
			t.Errorf("%s: %v", address, err)
		}
		c.AllowRemote = true
		if err := c.Validate(); err != nil {
			t.Errorf("%s, allowed: %v", address, err)
		}
	}
}
