package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"dyno/services/control/resource"
)

// another is a second format, of which only the name counts.
type another struct{ Format }

func (another) MediaTypes() []string { return []string{"application/x-another"} }

func TestAccepted(t *testing.T) {
	second := another{}
	all := Formats{Protobuf, second}
	for _, c := range []struct {
		field string
		want  Format // nil is JSON
	}{
		{"", nil},
		{"*/*", nil},
		{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", nil},
		{"application/x-protobuf", Protobuf},
		{"application/protobuf", Protobuf},
		{"APPLICATION/X-Protobuf; q=0.1", Protobuf},
		{"application/x-another", second},
		{"application/x-protobuf;q=0.5, application/x-another", second},
		{"application/x-protobuf, application/json", Protobuf},
		{"application/json, application/x-protobuf", nil},
		{"application/x-protobuf;q=0", nil},
		{"application/x-protobuf;v=1;q=0.2,application/json;q=0.1", Protobuf},
		{"application/x-protobuf;q=x", Protobuf},
		{"application/x-protobuf;q=0.5, */*", nil},
		{"application/x-protobuf, */*", Protobuf},
		{"application/*, application/x-protobuf", nil},
		{";;,,q=1", nil},
	} {
		if got := all.Accepted(c.field); got != c.want {
			t.Errorf("%q: %T, want %T", c.field, got, c.want)
		}
	}
}

// some makes any document, of what Protocol Buffers have.
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

// TestRoundTrip: what is written and read again is what a client may say of the same.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		kind := []resource.Kind{resource.Policies, resource.Configs, resource.Instances}[i%3]
		d := some(r, kind)
		text, err := Protobuf.Append([]byte("x"), d)
		if err != nil || text[0] != 'x' {
			t.Fatal(err)
		}
		got, err := Decode(Protobuf, text[1:])
		if err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		want := *d
		want.Policy, want.Config, want.Instance = copied(d.Policy), copied(d.Config), copied(d.Instance)
		if err := want.plain(); err != nil {
			t.Fatal(err)
		}
		want.Version, want.Revision, want.Tag = got.Version, got.Revision, got.Tag
		if !reflect.DeepEqual(got, &want) {
			t.Fatalf("got %s\nwant %s", shown(t, got), shown(t, &want))
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

// TestDamaged: no message that is cut or has a flipped bit panics.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, kind := range []resource.Kind{resource.Policies, resource.Configs, resource.Instances} {
		text, err := Protobuf.Append(nil, some(r, kind))
		if err != nil {
			t.Fatal(err)
		}
		for n := range text {
			_, _ = Decode(Protobuf, text[:n]) // either
			for bit := range 8 {
				one := bytes.Clone(text)
				one[n] ^= 1 << bit
				_, _ = Decode(Protobuf, one)
			}
		}
	}
	for _, text := range []string{"", "\x00", "{}", strings.Repeat("\xff", 64)} {
		var faults resource.Invalid
		if _, err := Decode(Protobuf, []byte(text)); !errors.As(err, &faults) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzProtobuf(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, kind := range []resource.Kind{resource.Policies, resource.Configs, resource.Instances} {
		text, err := Protobuf.Append(nil, some(r, kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Decode(Protobuf, text)
		if err != nil {
			return
		}
		again, err := Protobuf.Append(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := Decode(Protobuf, again); err != nil {
			t.Errorf("%s, again %s: %v", shown(t, d), shown(t, other), err)
		}
	})
}
