package plan

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/fields"
)

type (
	pings struct {
		Word  string `yaml:"word" kind:"word" default:"ping" flag:"word" doc:"what is sent"`
		Count int    `yaml:"count" range:"1..9" default:"2" doc:"how often"`
	}
	pongs struct {
		Size int `yaml:"size" kind:"size" range:"1..1KiB" default:"1" doc:"bytes"`
	}
)

func (p *pings) Check() error {
	if p.Word == "pong" {
		return errors.New("pong is an answer; such as ping")
	}
	return nil
}

// add registers protocols for one test.
func add(t *testing.T) {
	t.Helper()
	before := protocols
	t.Cleanup(func() { protocols, declared = before, sync.OnceValues(declare) })
	protocols = slices.Clip(protocols)
	for name, of := range map[string]reflect.Type{"ping": reflect.TypeFor[pings](), "pong": reflect.TypeFor[pongs]()} {
		if err := Register(name, strings.ToUpper(name), of, name == "ping"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRegister(t *testing.T) {
	add(t)
	for _, name := range []string{"http", "ping", "closed", "", "Ping", "a/b"} {
		if err := Register(name, "", reflect.TypeFor[struct{}](), false); err == nil || !strings.Contains(err.Error(), "want a name and a struct") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Register("pang", "", reflect.TypeFor[pings](), false); err == nil {
		t.Error("two protocols have one struct")
	}
	if protocol, where := OfURL("ping://h:1"); protocol != "ping" || where != "h:1" {
		t.Errorf("the URL is %s at %s", protocol, where)
	}
	for path, want := range map[string]bool{"load.ping.word": true, "load.pong.size": false, "load.scenario": true, "load.scenario.steps[].message": true, "load.requests": true, "target.url": false} {
		if got := Has("ping", path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if Has("pong", "load.scenario") {
		t.Error("a protocol without messages has scenarios")
	}
	schema, _ := Declared()
	if text, err := json.Marshal(schema.Schema(false)); err != nil || !strings.Contains(string(text), "ping only: what is sent to PING") {
		t.Errorf("the schema does not have load.ping, %v", err)
	}
}

// The fields of an added protocol have their defaults, are judged, filled in, and read by another process.
func TestAddedFields(t *testing.T) {
	add(t)
	plain := func() *Experiment {
		e := New("x", "ping")
		v := &e.Variants[0]
		v.Target.Address, v.Load.Closed = "127.0.0.1:1", &Closed{Connections: 1}
		e.Design.Rounds = 1
		e.Complete()
		return e
	}
	e := plain()
	if diff := cmp.Diff(&pings{"ping", 2}, e.Variants[0].Load.Added); diff != "" {
		t.Error(diff)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	for want, added := range map[string]any{
		"load.ping.count: 10 is too much; from 1 to 9":         &pings{"ping", 10},
		"load.ping: pong is an answer; such as ping":           &pings{"pong", 1},
		"load.pong: is only for PONG targets; say protocol: p": &pongs{1},
	} {
		e := plain()
		e.Variants[0].Load.Added = added
		var found *fields.Faults
		if err := e.Validate(); !errors.As(err, &found) || len(found.Faults) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	v := e.Variants[0]
	v.Load.Added = &pings{"{{ port }}", 1}
	if err := v.Fill(map[string]string{"port": "7"}); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var read Variant
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&pings{"7", 1}, read.Load.Added); diff != "" {
		t.Error(diff)
	}
	_, parts := Declared()
	written := (&fields.Encoder{Protocol: "ping"}).Value(parts[1], reflect.ValueOf(v), reflect.ValueOf(DefaultVariant("ping"))).YAML()
	if !strings.Contains(string(written), "  ping:\n    word: \"7\"\n    count: 1\n") {
		t.Errorf("the file is\n%s", written)
	}
	if err := json.Unmarshal([]byte(`{"Target": 1}`), &read); err == nil {
		t.Error("what is no variant was read")
	}
}
