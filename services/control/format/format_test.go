package format

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	flatbuffers "github.com/google/flatbuffers/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"dyno/services/control/format/controlfb"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

var all = []Format{Protobuf, FlatBuffers, Gob}

func TestAccepted(t *testing.T) {
	for _, c := range []struct {
		field   string
		trusted bool
		want    Format
	}{
		{"", true, JSON},
		{"*/*", true, JSON},
		{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", true, JSON},
		{"application/x-protobuf", false, Protobuf},
		{"application/protobuf", false, Protobuf},
		{"APPLICATION/X-Protobuf; q=0.1", false, Protobuf},
		{"application/x-flatbuffers", false, FlatBuffers},
		{"application/x-protobuf;q=0.5, application/x-flatbuffers", false, FlatBuffers},
		{"application/x-protobuf, application/json", false, Protobuf},
		{"application/json, application/x-protobuf", false, JSON},
		{"application/x-protobuf;q=0", false, JSON},
		{"application/x-gob", true, Gob},
		{"application/x-gob", false, JSON},
		{"application/x-gob, application/x-protobuf;q=0.2", false, Protobuf},
		{"application/x-protobuf;v=1;q=0.2,application/json;q=0.1", false, Protobuf},
		{"application/x-protobuf;q=x", false, Protobuf},
		{"application/x-protobuf;q=0.5, */*", false, JSON},
		{"application/x-protobuf, */*", false, Protobuf},
		{"application/*, application/x-protobuf", false, JSON},
		{";;,,q=1", true, JSON},
	} {
		if got := Accepted(c.field, c.trusted); got != c.want {
			t.Errorf("%q, trusted %v: %v, want %v", c.field, c.trusted, got, c.want)
		}
	}
}

// some makes any document; only what all formats have.
func some(r *rand.Rand, kind resource.Kind) *Document {
	word := func() string { return []string{"a", "shop", "größe", "x/y", strings.Repeat("l", 300)}[r.IntN(5)] }
	words := func() (list []string) {
		for range r.IntN(3) {
			list = append(list, word())
		}
		return list
	}
	labels := func() (m map[string]string) {
		for range r.IntN(3) {
			if m == nil {
				m = map[string]string{}
			}
			m[word()] = []string{"", "v", "größer"}[r.IntN(3)]
		}
		return m
	}
	d := &Document{Ref: resource.Ref{Kind: kind, Namespace: word(), Name: word()}, Version: r.Int64N(1000), Revision: r.Int64(), Tag: `"1-0"`}
	change := resource.Change{Version: d.Version, At: time.Unix(r.Int64N(1e9)+1, r.Int64N(1e9)).UTC(), By: word()}
	switch kind {
	case resource.Policies:
		p := &resource.Policy{Labels: labels(), Rules: []resource.Rule{}, Change: change}
		for range r.IntN(4) {
			one := resource.Rule{
				Match:  resource.Match{Services: words(), Sources: labels(), Methods: words(), PathPrefix: []string{"", "/v1"}[r.IntN(2)], Headers: labels()},
				Action: resource.Action(word()),
			}
			switch r.IntN(4) {
			case 0:
				one.Limit = &resource.RateLimit{PerSecond: r.Float64() * 100, Burst: r.IntN(10)}
			case 1:
				one.Route = []resource.Backend{{Service: word(), Weight: r.IntN(9)}, {Service: word()}}
			case 2:
				one.Retry = &resource.Retries{Attempts: r.IntN(5), Backoff: r.Float64()}
			case 3:
				one.Timeout = r.Float64()
			}
			p.Rules = append(p.Rules, one)
		}
		d.Policy = p
	case resource.Configs:
		d.Config = &resource.Config{Labels: labels(), Content: word(), ContentType: word(), Secret: r.IntN(2) == 0, Change: change}
	default:
		d.Ref.ID = word()
		d.Instance = &resource.Instance{Address: word(), Port: r.IntN(65536), Zone: word(), Weight: r.IntN(200), Metadata: labels(), Status: resource.Status(word()), TTL: r.Float64(), Holder: word(), Change: change}
	}
	return d
}

// TestRoundTrip: what is written in any format and read again is what a client may say of the same.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		kind := []resource.Kind{resource.Policies, resource.Configs, resource.Instances}[i%3]
		d := some(r, kind)
		for _, f := range all {
			text, err := f.Append([]byte("x"), d)
			if err != nil || text[0] != 'x' {
				t.Fatalf("%v: %v", f, err)
			}
			got, err := f.Decode(text[1:])
			if err != nil {
				t.Fatalf("%v: %+v: %v", f, d, err)
			}
			want := *d
			want.Policy, want.Config, want.Instance = copied(d.Policy), copied(d.Config), copied(d.Instance)
			if err := want.plain(); err != nil {
				t.Fatal(err)
			}
			want.Version, want.Revision, want.Tag = got.Version, got.Revision, got.Tag
			if !reflect.DeepEqual(got, &want) {
				t.Fatalf("%v:\n got %s\nwant %s", f, shown(t, got), shown(t, &want))
			}
		}
	}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	one := *v
	return &one
}

func shown(t *testing.T, d *Document) []byte {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestEvents reads events as clients do.
func TestEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	policy, config := some(r, resource.Policies), some(r, resource.Configs)
	config.Released = true
	gone := &Document{Ref: resource.Ref{Kind: resource.Instances, Namespace: "n", Name: "s", ID: "i"}, Version: 3, Revision: 9}
	events := []Event{{Type: Resync}, {Type: Put, Document: policy}, {Type: Put, Document: config}, {Type: Remove, Document: gone}, {Type: Synced, Token: "a.7"}}
	write := func(f Format) []byte {
		text, err := f.AppendEvents(nil, events)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	t.Run("protobuf", func(t *testing.T) {
		in := bytes.NewReader(write(Protobuf))
		var names []string
		for {
			m := new(controlpb.WatchResponse)
			if err := protodelim.UnmarshalFrom(in, m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			names = append(names, m.GetType().String()+" "+m.GetResource().GetRef().GetName()+m.GetToken())
			if c := m.GetResource().GetConfig(); c != nil && (!c.GetReleased() || c.GetContent() != config.Config.Content) {
				t.Errorf("%v", c)
			}
		}
		check(t, names, "TYPE_RESYNC ", "TYPE_PUT "+policy.Ref.Name, "TYPE_PUT "+config.Ref.Name, "TYPE_REMOVE s", "TYPE_SYNCED a.7")
	})
	t.Run("flatbuffers", func(t *testing.T) {
		in := write(FlatBuffers)
		var names []string
		for len(in) > 0 {
			n := binary.LittleEndian.Uint32(in)
			m := controlfb.GetSizePrefixedRootAsEvent(in, 0)
			name := ""
			if one := m.Resource(nil); one != nil {
				name = string(one.Ref(nil).Name())
			}
			names = append(names, m.Type().String()+" "+name+string(m.Token()))
			in = in[4+n:]
		}
		check(t, names, "Resync ", "Put "+policy.Ref.Name, "Put "+config.Ref.Name, "Remove s", "Synced a.7")
	})
	t.Run("gob", func(t *testing.T) {
		in := gob.NewDecoder(bytes.NewReader(write(Gob)))
		var got []Event
		for {
			var e Event
			if err := in.Decode(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if len(got) != len(events) || got[3].Document.Ref != gone.Ref || !got[2].Document.Released || got[4].Token != "a.7" {
			t.Errorf("%+v", got)
		}
	})
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAmplification: a list may name one table as often as it wants. That a message becomes far more than it
// is must not be possible.
func TestAmplification(t *testing.T) {
	b := flatbuffers.NewBuilder(1 << 10)
	action := b.CreateString(strings.Repeat("a", 64<<10))
	controlfb.RuleStart(b)
	controlfb.RuleAddAction(b, action)
	rule := controlfb.RuleEnd(b)
	rules := make([]flatbuffers.UOffsetT, 100_000) // 6 GB of text
	for i := range rules {
		rules[i] = rule
	}
	list := b.CreateVectorOfTables(rules)
	controlfb.PolicyStart(b)
	controlfb.PolicyAddRules(b, list)
	policy := controlfb.PolicyEnd(b)
	controlfb.ResourceStart(b)
	controlfb.ResourceAddDocumentType(b, controlfb.DocumentPolicy)
	controlfb.ResourceAddDocument(b, policy)
	b.Finish(controlfb.ResourceEnd(b))
	if _, err := FlatBuffers.Decode(b.FinishedBytes()); err == nil || !strings.Contains(err.Error(), errLarge.Error()) {
		t.Errorf("%v", err)
	}
}

// TestKeyTwice: a map is a list of pairs, of which two may have one key. Readers would not agree on
// which is meant.
func TestKeyTwice(t *testing.T) {
	b := flatbuffers.NewBuilder(0)
	var labels []flatbuffers.UOffsetT
	for range 2 {
		key := b.CreateString("zone")
		controlfb.PairStart(b)
		controlfb.PairAddKey(b, key)
		labels = append(labels, controlfb.PairEnd(b))
	}
	list := b.CreateVectorOfTables(labels)
	controlfb.ConfigStart(b)
	controlfb.ConfigAddLabels(b, list)
	config := controlfb.ConfigEnd(b)
	controlfb.ResourceStart(b)
	controlfb.ResourceAddDocumentType(b, controlfb.DocumentConfig)
	controlfb.ResourceAddDocument(b, config)
	b.Finish(controlfb.ResourceEnd(b))
	if _, err := FlatBuffers.Decode(b.FinishedBytes()); err == nil || !strings.Contains(err.Error(), errTwice.Error()) {
		t.Errorf("%v", err)
	}
}

// TestDamaged: no message that is cut or has a flipped bit panics, and what is read of it is text.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, f := range []Format{Protobuf, FlatBuffers} {
		for _, kind := range []resource.Kind{resource.Policies, resource.Configs, resource.Instances} {
			text, err := f.Append(nil, some(r, kind))
			if err != nil {
				t.Fatal(err)
			}
			for n := range text {
				_, _ = f.Decode(text[:n]) // either
				for bit := range 8 {
					one := bytes.Clone(text)
					one[n] ^= 1 << bit
					if d, err := f.Decode(one); err == nil && !d.valid() {
						t.Fatalf("%v: no text: %+v", f, d)
					}
				}
			}
		}
	}
	for _, f := range all {
		for _, text := range []string{"", "\x00", "{}", strings.Repeat("\xff", 64)} {
			var faults resource.Invalid
			if _, err := f.Decode([]byte(text)); !errors.As(err, &faults) {
				t.Errorf("%v: %q: %v", f, text, err)
			}
		}
		bad := &Document{Ref: resource.Ref{Kind: resource.Configs}, Config: &resource.Config{Content: "a\xffb"}}
		if text, err := f.Append(nil, bad); err == nil {
			if _, err := f.Decode(text); err == nil {
				t.Errorf("%v: what is not UTF-8 was taken", f)
			}
		}
	}
}

func FuzzFlatBuffers(f *testing.F) { fuzz(f, FlatBuffers) }
func FuzzProtobuf(f *testing.F)    { fuzz(f, Protobuf) }

func fuzz(f *testing.F, in Format) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, kind := range []resource.Kind{resource.Policies, resource.Configs, resource.Instances} {
		text, err := in.Append(nil, some(r, kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := in.Decode(text)
		if err != nil {
			return
		}
		again, err := in.Append(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := in.Decode(again); err != nil || in == FlatBuffers && !bytes.Equal(shown(t, d), shown(t, other)) {
			t.Errorf("%s, again %s: %v", shown(t, d), shown(t, other), err)
		}
	})
}

// TestFlatc has the reference implementation read what is written, and write what is read.
func TestFlatc(t *testing.T) {
	flatc, err := exec.LookPath("flatc")
	if err != nil {
		t.Skip("flatc is not on PATH; scripts/setup.sh installs it")
	}
	dir := t.TempDir()
	text, err := FlatBuffers.Append(nil, &Document{
		Ref: resource.Ref{Kind: resource.Policies, Namespace: "shop", Name: "orders"}, Version: 4, Revision: 17,
		Policy: &resource.Policy{Labels: map[string]string{"team": "x"}, Rules: []resource.Rule{{Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5, Burst: 3}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	binaryFile := filepath.Join(dir, "one.bin")
	if err := os.WriteFile(binaryFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), flatc, args...).CombinedOutput(); err != nil {
			t.Fatalf("flatc %q: %v: %s", args, err, out)
		}
	}
	run("--json", "--strict-json", "--raw-binary", "-o", dir, "control.fbs", "--", binaryFile)
	var got struct {
		Ref          struct{ Kind, Namespace, Name string }
		Version      int64
		DocumentType string `json:"document_type"`
		Document     struct {
			Labels []struct{ Key, Value string }
			Rules  []struct {
				Action string
				Limit  struct {
					PerSecond float64 `json:"requests_per_second"`
					Burst     int
				}
			}
		}
	}
	shown, err := os.ReadFile(filepath.Join(dir, "one.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(shown, &got); err != nil {
		t.Fatal(err)
	}
	if rule := got.Document.Rules; got.Ref.Kind != "Policy" || got.Ref.Name != "orders" || got.Version != 4 || got.DocumentType != "Policy" ||
		got.Document.Labels[0].Value != "x" || len(rule) != 1 || rule[0].Action != "limit" || rule[0].Limit.PerSecond != 2.5 || rule[0].Limit.Burst != 3 {
		t.Errorf("%s", shown)
	}

	given := filepath.Join(dir, "two.json")
	if err := os.WriteFile(given, []byte(`{"ref": {"kind": "Instance", "name": "shop", "id": "a"}, "document_type": "Instance", "document": {"address": "10.0.0.1", "port": 80}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run("--binary", "-o", dir, "control.fbs", given)
	text, err = os.ReadFile(filepath.Join(dir, "two.bin"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := FlatBuffers.Decode(text)
	if err != nil || d.Ref != (resource.Ref{Kind: resource.Instances, Name: "shop", ID: "a"}) || d.Instance.Address != "10.0.0.1" || d.Instance.Weight != resource.DefaultWeight {
		t.Errorf("%+v: %v", d, err)
	}
}
