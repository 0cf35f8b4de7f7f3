package formats

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"dyno/services/control/message"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// policy has all that these formats write.
func policy() *Document {
	labels := map[string]string{"team": "x", "": "y"}
	return &Document{
		Ref: resource.Ref{Kind: resource.Policies, Namespace: "shop", Name: "orders"}, Version: 4, Revision: 17,
		Policy: &resource.Policy{Labels: map[string]string{"team": "x"}, Rules: []resource.Rule{
			{
				Match:  resource.Match{Services: []string{"a", "b"}, Sources: labels, Methods: []string{"GET"}, PathPrefix: "/v1", Headers: labels},
				Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5, Burst: 3},
			},
			{Action: resource.Route, Route: []resource.Backend{{Service: "a", Weight: 9}, {Service: "b"}}},
			{Action: resource.Retry, Retry: &resource.Retries{Attempts: 3, Backoff: 0.25}},
		}},
	}
}

// TestProtobuf: the message is the one of the control plane.
func TestProtobuf(t *testing.T) {
	d := policy()
	text, err := Protobuf.Append([]byte("x"), d)
	if err != nil || text[0] != 'x' {
		t.Fatal(err)
	}
	got := new(controlpb.Resource)
	if err := proto.Unmarshal(text[1:], got); err != nil || !proto.Equal(got, message.Of(d.Ref, d.Version, d.Revision, d.Tag, d.Policy)) {
		t.Errorf("%v: %v", got, err)
	}
}

func TestGob(t *testing.T) {
	d := policy()
	text, err := Gob.Append([]byte("x"), d)
	if err != nil || text[0] != 'x' {
		t.Fatal(err)
	}
	if got, err := Gob.Decode(text[1:]); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("%+v: %v", got, err)
	}
	for _, damaged := range []string{"", "x", string(text[1:]) + "x"} {
		if _, err := Gob.Decode([]byte(damaged)); err == nil {
			t.Errorf("%q has no fault", damaged)
		}
	}
}

// TestFlatc has the reference implementation read what is written.
func TestFlatc(t *testing.T) {
	flatc, err := exec.LookPath("flatc")
	if err != nil {
		t.Skip("flatc is not on PATH; scripts/setup.sh installs it")
	}
	dir := t.TempDir()
	text, err := FlatBuffers.Append(nil, policy())
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
		got.Document.Labels[0].Value != "x" || len(rule) != 3 || rule[0].Action != "limit" || rule[0].Limit.PerSecond != 2.5 || rule[0].Limit.Burst != 3 {
		t.Errorf("%s", shown)
	}
}
