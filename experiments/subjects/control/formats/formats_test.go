package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"dyno/experiments/subjects/control/formats/controlfb"
	"dyno/services/control/format"
	"dyno/services/control/resource"
)

// documents have all that a client may say, and nothing but what it must.
func documents() []*format.Document {
	ref := func(kind resource.Kind, id string) resource.Ref {
		return resource.Ref{Kind: kind, Namespace: "shop", Name: "größe", ID: id}
	}
	labels := map[string]string{"team": "x", "": "y"}
	return []*format.Document{
		{Ref: ref(resource.Policies, ""), Policy: &resource.Policy{Namespace: "shop", Name: "größe", Labels: labels, Rules: []resource.Rule{
			{
				Match:  resource.Match{Services: []string{"a", "b"}, Sources: labels, Methods: []string{"GET"}, PathPrefix: "/v1", Headers: labels},
				Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5, Burst: 3},
			},
			{Route: []resource.Backend{{Service: "a", Weight: 9}, {Service: "b"}}},
			{Retry: &resource.Retries{Attempts: 3, Backoff: 0.25}, Timeout: 1.5},
		}}},
		{Ref: ref(resource.Policies, ""), Policy: &resource.Policy{Namespace: "shop", Name: "größe", Rules: []resource.Rule{}}},
		{Ref: ref(resource.Configs, ""), Config: &resource.Config{
			Namespace: "shop", Name: "größe", Labels: labels, Content: strings.Repeat("c", 3000), ContentType: "text/plain", Secret: true,
		}},
		{Ref: ref(resource.Configs, ""), Config: &resource.Config{Namespace: "shop", Name: "größe"}},
		{Ref: ref(resource.Instances, "1"), Instance: &resource.Instance{
			Namespace: "shop", Service: "größe", ID: "1", Address: "10.0.0.1", Port: 65535, Zone: "z", Weight: 7, Metadata: labels, Status: resource.Up, TTL: 2.5,
		}},
		{Ref: ref(resource.Instances, "1"), Instance: &resource.Instance{Namespace: "shop", Service: "größe", ID: "1"}},
	}
}

// TestRoundTrip: what is written in a format and read again is the same.
func TestRoundTrip(t *testing.T) {
	for _, f := range []format.Format{FlatBuffers, Gob} {
		for _, d := range documents() {
			text, err := f.Append([]byte("x"), d)
			if err != nil || text[0] != 'x' {
				t.Fatalf("%v: %v", f.MediaTypes(), err)
			}
			if got, err := format.Decode(f, text[1:]); err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("%v: %v\n got %s\nwant %s", f.MediaTypes(), err, shown(t, got), shown(t, d))
			}
		}
		for _, text := range []string{"", "\x00", "{}", strings.Repeat("\xff", 64)} {
			var faults resource.Invalid
			if _, err := format.Decode(f, []byte(text)); !errors.As(err, &faults) {
				t.Errorf("%v: %q: %v", f.MediaTypes(), text, err)
			}
		}
	}
}

func shown(t *testing.T, d *format.Document) []byte {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
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
	if _, err := format.Decode(FlatBuffers, b.FinishedBytes()); err == nil || !strings.Contains(err.Error(), errLarge.Error()) {
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
	if _, err := format.Decode(FlatBuffers, b.FinishedBytes()); err == nil || !strings.Contains(err.Error(), errTwice.Error()) {
		t.Errorf("%v", err)
	}
}

// TestDamaged: no message that is cut or has a flipped bit panics.
func TestDamaged(t *testing.T) {
	for _, d := range documents() {
		text, err := FlatBuffers.Append(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		for n := range text {
			_, _ = format.Decode(FlatBuffers, text[:n]) // either
			for bit := range 8 {
				one := bytes.Clone(text)
				one[n] ^= 1 << bit
				_, _ = format.Decode(FlatBuffers, one)
			}
		}
	}
}

// TestFlatc has the reference implementation read what is written, and write what is read.
func TestFlatc(t *testing.T) {
	flatc, err := exec.LookPath("flatc")
	if err != nil {
		t.Skip("flatc is not on PATH; scripts/setup.sh installs it")
	}
	dir := t.TempDir()
	text, err := FlatBuffers.Append(nil, &format.Document{
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
	d, err := format.Decode(FlatBuffers, text)
	if err != nil || d.Ref != (resource.Ref{Kind: resource.Instances, Name: "shop", ID: "a"}) || d.Instance.Address != "10.0.0.1" || d.Instance.Weight != resource.DefaultWeight {
		t.Errorf("%+v: %v", d, err)
	}
}
