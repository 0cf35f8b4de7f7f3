package faults

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A state is what a resource is: its version, and what was put in it. Version 0 is that
// there is none.
type state struct {
	version int64
	value   string
}

// An outcome is what a client was told of what it asked for.
type outcome int

const (
	unknown outcome = iota // nothing that says whether a write was made
	done
	refused // the resource is another than the write's condition says
	undone  // it was not done, and the resource is not why
)

// An operation is a read or a write of one resource. Values are unique: each is written
// by one operation only.
type operation struct {
	client    int
	key       string
	value     string // that is written; "" is a read
	on        *state // what the resource must be; nil is no condition
	call, ret int64  // nanoseconds since the run began
	outcome   outcome
	seen      state // what a read found, or a write made
	revision  int64 // of the store, when a write was made; 0 was not told
}

// A version is one that a resource has had.
type version struct {
	value    string
	revision int64 // 0 is not known
}

// A record is all that a run is judged by.
type record struct {
	operations []operation
	// truth has the versions of each key, from the first on, as a read of their history
	// says after everything.
	truth   map[string][]version
	watches map[string][]sight // by the watcher's name
}

// model is one resource. Every operation in a history was told its outcome.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(operation).key
			byKey[key] = append(byKey[key], o)
		}
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(now, input, _ any) (bool, any) {
		is, o := now.(state), input.(operation)
		holds := o.on == nil || *o.on == is
		switch {
		case o.value == "":
			return o.seen == is, is
		case o.outcome == refused:
			return !holds, is
		}
		return holds && o.seen == state{is.version + 1, o.value}, o.seen
	},
}

// judge returns everything that is wrong in a record.
func judge(r record, patience time.Duration) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	made := map[string]int64{}  // the version that a value is
	asked := map[string]int64{} // when it was
	for _, key := range slices.Sorted(maps.Keys(r.truth)) {
		for i, v := range r.truth[key] {
			if _, ok := made[v.value]; ok {
				fault("%s: version %d: %q was made twice", key, i+1, v.value)
			}
			made[v.value] = int64(i + 1)
		}
	}
	truth := map[string][]version{}
	for key, versions := range r.truth {
		truth[key] = slices.Clone(versions)
	}
	// at notes at which revision a version was made, if all say the same.
	at := func(who, key string, s state, revision int64) {
		switch versions := truth[key]; {
		case s.version < 1 || s.version > int64(len(versions)) || versions[s.version-1].value != s.value:
			fault("%s: was told of %s as version %d, %q, which there is not", who, key, s.version, s.value)
		case versions[s.version-1].revision == 0:
			versions[s.version-1].revision = revision
		case revision != 0 && versions[s.version-1].revision != revision:
			fault("%s: was told that version %d of %s is of revision %d, and others that it is of %d", who, s.version, key, revision, versions[s.version-1].revision)
		}
	}
	var history []porcupine.Operation
	for _, o := range r.operations {
		who := fmt.Sprint("client ", o.client)
		version, is := made[o.value]
		if o.value != "" {
			asked[o.value] = o.call
		}
		switch {
		case o.value == "" && o.outcome != done:
			continue // nothing was read
		case o.value == "":
			if o.seen.version > 0 {
				at(who, o.key, o.seen, 0)
			}
		case o.outcome == done:
			if !is || version != o.seen.version {
				fault("%s: version %d of %s, %q, was acknowledged and is lost", who, o.seen.version, o.key, o.value)
			}
			at(who, o.key, o.seen, o.revision)
		case is && o.outcome != unknown:
			fault("%s: %s of %q was said to be not made, and is version %d", who, o.key, o.value, version)
		case o.outcome == unknown && is:
			// It was made at some time, perhaps after the client had given up.
			o.outcome, o.seen, o.ret = done, state{version, o.value}, math.MaxInt64
		case o.outcome != refused:
			continue // it was never made
		}
		history = append(history, porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.ret})
	}
	for who, sights := range r.watches {
		for _, s := range sights {
			if s.kind == changed {
				at(who, s.key, state{s.version, s.value}, s.revision)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(truth)) {
		last := int64(0)
		for i, v := range truth[key] {
			if v.revision != 0 && v.revision <= last {
				fault("%s: version %d is of revision %d, and one before it of %d", key, i+1, v.revision, last)
			}
			last = max(last, v.revision)
		}
	}
	for _, part := range model.Partition(history) {
		switch porcupine.CheckOperationsTimeout(model, part, patience) {
		case porcupine.Illegal:
			fault("%s: no order explains what clients were told:\n%s", part[0].Input.(operation).key, listing(part))
		case porcupine.Unknown:
			fault("%s: whether an order explains %d operations was not found out within %v", part[0].Input.(operation).key, len(part), patience)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(r.watches)) {
		for _, f := range judgeWatch(r.watches[who], truth, asked) {
			fault("%s: %s", who, f)
		}
	}
	return faults
}

// listing is a history for who looks for what is wrong with it.
func listing(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, p := range history {
		o := p.Input.(operation)
		fmt.Fprintf(&b, "  %12.6f %12.6f client %d ", float64(o.call)/1e9, float64(o.ret)/1e9, o.client)
		switch {
		case o.value == "":
			fmt.Fprintf(&b, "read %d %q\n", o.seen.version, o.seen.value)
		case o.outcome == refused:
			fmt.Fprintf(&b, "refused %q on %v\n", o.value, *o.on)
		case o.on == nil:
			fmt.Fprintf(&b, "wrote %d %q\n", o.seen.version, o.value)
		default:
			fmt.Fprintf(&b, "wrote %d %q on %v\n", o.seen.version, o.value, *o.on)
		}
	}
	return b.String()
}

// write and read are operations from one time to another.
func write(from, to int64, value string, on *state, result outcome, at int64) operation {
	o := operation{key: "k", value: value, on: on, call: from, ret: to, outcome: result}
	if result == done {
		o.seen = state{at, value}
	}
	return o
}

func read(from, to, version int64, value string) operation {
	return operation{key: "k", call: from, ret: to, outcome: done, seen: state{version, value}}
}

// TestJudge: what can be is taken for right, and what cannot is refused: else no run
// could fail.
func TestJudge(t *testing.T) {
	none := &state{}
	of := func(values ...string) map[string][]version {
		var versions []version
		for _, v := range values {
			versions = append(versions, version{value: v})
		}
		return map[string][]version{"k": versions}
	}
	for name, c := range map[string]struct {
		truth      map[string][]version
		operations []operation
		want       string // part of a fault; "" is none
	}{
		"nothing": {of(), nil, ""},
		"one after the other": {of("a", "b"), []operation{
			write(0, 1, "a", none, done, 1), read(2, 3, 1, "a"), write(4, 5, "b", &state{1, "a"}, done, 2), read(6, 7, 2, "b"), write(8, 9, "c", none, refused, 0),
		}, ""},
		"at once": {of("b", "a"), []operation{write(0, 5, "a", nil, done, 2), write(0, 5, "b", nil, done, 1), read(1, 5, 0, "")}, ""},
		"of unknown fate, made later than told": {of("b", "a"), []operation{
			write(0, 1, "a", nil, unknown, 0), write(2, 3, "b", nil, done, 1), read(4, 5, 1, "b"), read(6, 7, 2, "a"),
		}, ""},
		"of unknown fate, never made": {of("b"), []operation{write(0, 1, "a", nil, unknown, 0), write(2, 3, "b", none, done, 1)}, ""},
		"not made":                    {of("b"), []operation{write(0, 1, "a", nil, undone, 0), write(2, 3, "b", none, done, 1)}, ""},

		"lost":                          {of(), []operation{write(0, 1, "a", nil, done, 1)}, "lost"},
		"lost under another":            {of("b"), []operation{write(0, 1, "a", nil, done, 1), write(2, 3, "b", nil, done, 1)}, "lost"},
		"stale read":                    {of("a", "b"), []operation{write(0, 1, "a", none, done, 1), write(2, 3, "b", nil, done, 2), read(4, 5, 1, "a")}, "no order"},
		"read before it was written":    {of("a"), []operation{read(0, 1, 1, "a"), write(2, 3, "a", none, done, 1)}, "no order"},
		"reads that go back":            {of("a", "b"), []operation{write(0, 1, "a", none, done, 1), write(2, 9, "b", nil, done, 2), read(3, 4, 2, "b"), read(5, 6, 1, "a")}, "no order"},
		"refused, though it held":       {of("a"), []operation{write(0, 1, "a", none, done, 1), write(2, 3, "b", &state{1, "a"}, refused, 0)}, "no order"},
		"made, though it did not hold":  {of("a", "b"), []operation{write(0, 1, "a", none, done, 1), write(2, 3, "b", none, done, 2)}, "no order"},
		"made twice":                    {of("a", "a"), []operation{write(0, 1, "a", nil, unknown, 0)}, "made twice"},
		"made after all":                {of("a"), []operation{write(0, 1, "a", nil, undone, 0)}, "said to be not made"},
		"refused, and made":             {of("b", "a"), []operation{write(0, 1, "b", none, done, 1), write(2, 3, "a", none, refused, 0)}, "said to be not made"},
		"a version that nobody has had": {of("a"), []operation{write(0, 1, "a", none, done, 1), read(2, 3, 1, "x")}, "which there is not"},
	} {
		faults := judge(record{operations: c.operations, truth: c.truth}, time.Minute)
		switch {
		case c.want == "" && len(faults) > 0, c.want != "" && len(faults) == 0:
			t.Errorf("%s: %q, want %q", name, faults, c.want)
		case c.want != "" && !strings.Contains(strings.Join(faults, "\n"), c.want):
			t.Errorf("%s: %q, want %q", name, faults, c.want)
		}
	}
}

// Two revisions of one version, or one of two versions, are a fault.
func TestJudgeRevisions(t *testing.T) {
	first, second := write(0, 1, "a", nil, done, 1), write(2, 3, "b", nil, done, 2)
	first.revision, second.revision = 5, 6
	r := record{operations: []operation{first, second}, truth: map[string][]version{"k": {{value: "a"}, {value: "b"}}}}
	if faults := judge(r, time.Minute); len(faults) > 0 {
		t.Error(faults)
	}
	r.operations[1].revision = 5
	if faults := judge(r, time.Minute); len(faults) != 1 || !strings.Contains(faults[0], "revision") {
		t.Error(faults)
	}
	r.operations[1].revision = 6
	r.watches = map[string][]sight{"w": {{kind: started}, {kind: resync}, {kind: changed, key: "k", version: 2, revision: 7, value: "b"}, {kind: synced, revision: 7, token: 7}}}
	if faults := judge(r, time.Minute); len(faults) == 0 || !strings.Contains(faults[0], "revision") {
		t.Error(faults)
	}
}
