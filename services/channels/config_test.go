package channels

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestParseConfig(t *testing.T) {
	got, err := ParseConfig("relay.yaml", []byte(example))
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
	if _, err := ParseConfig("channels.yaml", []byte(Example)); err != nil {
		t.Error(err)
	}
	manual, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "```yaml\n"+Example+"```\n") {
		t.Error("docs/channels.md does not show Example")
	}
	for _, t1 := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Channel](), reflect.TypeFor[Source](), reflect.TypeFor[Buffer](), reflect.TypeFor[Sink]()} {
		for i := range t1.NumField() {
			if name := t1.Field(i).Tag.Get("yaml"); !strings.Contains(string(manual), "`"+name+"`") {
				t.Errorf("docs/channels.md does not name %s", name)
			}
		}
	}
}

func TestParseConfigLocatesEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"not yaml":      {"channels: [", []string{"f.yaml:1:"}},
		"unknown field": {"channels:\n  - title: x\n", []string{`f.yaml:2:5: channels[0].title: unknown field; known here: name, source, buffer, sink`}},
		"meant":         {"channels:\n  - name: x\n    source: {kind: tcp, addresses: 1}\n    sinc: {}\n", []string{`channels[0].source.addresses: unknown field; did you mean "address"?`, `channels[0].sinc: unknown field; did you mean "sink"?`}},
		"wrong type":    {"seed: soon\n", []string{`f.yaml:1:7: seed: "soon": want a whole number`}},
		"wrong forms": {"seed: []\ndrain_timeout: 5\nallow_remote: perhaps\nchannels: {}\n", []string{
			"f.yaml:1:7: seed: a list: want a whole number", `f.yaml:2:16: drain_timeout: "5": want a duration, such as 5s or 250ms`,
			`f.yaml:3:15: allow_remote: "perhaps": want true or false`, "f.yaml:4:11: channels: a mapping: want a list",
		}},
		"wrong items": {"channels:\n  - x\n  - name: {a: b}\n    buffer: {bytes: 16MiB}\n    source: tcp\n", []string{
			`f.yaml:2:5: channels[0]: "x": want a mapping`, "channels[1].name: a mapping: want text", `channels[1].buffer.bytes: "16MiB": want a whole number`, `channels[1].source: "tcp": want a mapping`,
		}},
		"missing": {"channels: [{}]\n", []string{"channels[0].name: is missing: want 1 to 64", "channels[0].source.kind: is missing: want tcp, unix, file, stdin", "channels[0].sink.kind: is missing"}},
		"nothing": {"", []string{"f.yaml:1:1: channels: none"}},
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
			`f.yaml:4:53: channels[0].source.path: /x: has no effect here`,
			`f.yaml:4:34: channels[0].source.address: "0.0.0.0:1": want a loopback address`,
			`f.yaml:5:18: channels[0].sink.kind: "pigeon": want tcp, file, stdout`,
			`f.yaml:8:11: channels[1].source.state: is missing: want a path`,
			`f.yaml:10:23: channels[1].buffer.records: -1: want 1 to 16777216`,
			`f.yaml:10:34: channels[1].buffer.bytes: 10: want 65536 to`,
			`f.yaml:10:49: channels[1].buffer.when_full: disconnect`,
			`f.yaml:11:30: channels[1].sink.path: path /x is used by channels[1].source.path already`,
			`f.yaml:11:59: channels[1].sink.sync_every: 1s: has no effect here`,
			`f.yaml:11:89: channels[1].sink.retry_max: 1s: want 2s to 24h0m0s`,
			`f.yaml:12:11: channels[2].name: name b is used by channels[1].name already`,
			`channels[2].sink.format: raw: records with a length`,
			`f.yaml:14:32: channels[2].sink.address: "host": want host:port`,
			`f.yaml:14:53: channels[2].sink.ack_timeout: 1s: has no effect here`,
			`f.yaml:16:20: channels[3].source.kind: standard input is used by channels[2].source.kind already`,
			`f.yaml:16:36: channels[3].source.framing: "words": want lines, length`,
			`f.yaml:17:32: channels[3].sink.address: "127.0.0.1:0": want the port of the peer`,
			`f.yaml:17:71: channels[3].sink.window: 9999: want 1 to 4096`,
			`f.yaml:20:25: channels[4].buffer.when_full: disconnect: a framed peer would send`,
			`channels[4].sink.format: raw: records with a length`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig("f.yaml", []byte(c.in))
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

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("channels: [{name: a, source: {kind: stdin}, sink: {kind: file, path: x}}]"))
	f.Add([]byte("channels: {a: 1}"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("drain_timeout: -1h"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := ParseConfig("f", src)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("not located: %v", err)
			}
			return
		}
		if diff := cmp.Diff(c, c.WithDefaults()); diff != "" || c.Validate() != nil {
			t.Fatalf("accepted, but: %v %s", c.Validate(), diff)
		}
	})
}
