package faults

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
)

// A sight is one thing that a watcher was told, or that it began to watch.
type sight struct {
	kind     sightKind
	at       int64 // nanoseconds since the run began
	key      string
	version  int64
	revision int64 // of what was told, or up to where it is synced
	value    string
	// token is the revision of the token that came with it, or that the watch begins with;
	// 0 is none.
	token int64
}

type sightKind int

const (
	started sightKind = iota
	resync
	synced
	changed
)

// A reader checks the events of a watcher.
type reader struct {
	truth  map[string][]version
	asked  map[string]int64 // when a value was asked to be written
	faults []string

	token    int64            // up to here, it knows everything and comes back to it
	known    map[string]int64 // versions by key, up to the token
	loose    []sight          // told since; a watch that comes back gets them again
	reached  []sight          // the first of each revision that was told since the last resync
	snapshot map[string]int64 // versions by key, during a snapshot; nil otherwise
}

// judgeWatch returns what is wrong with what a watcher was told:
//
//   - each change once, in the order of revisions, also across connections;
//   - what is left out is a version that was replaced before it could be seen: where something
//     of its revision or a later one was told before the next version was even asked for, it
//     should have been told before that;
//   - everything, after a resync, is what there was at its revision; so is what is known with a
//     token of a later revision than the change that it came with, as a replica gives it that has
//     listed what it had missed, which it tells together;
//   - in the end, the newest version of every resource.
func judgeWatch(sights []sight, truth map[string][]version, asked map[string]int64) []string {
	r := reader{truth: truth, asked: asked, known: map[string]int64{}}
	for _, s := range sights {
		switch s.kind {
		case started:
			r.begin(s)
		case resync:
			r.token, r.known, r.loose, r.reached, r.snapshot = 0, map[string]int64{}, nil, nil, map[string]int64{}
		case synced:
			r.sync(s)
		case changed:
			r.note(s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(truth)) {
		if n := r.version(key); n != int64(len(truth[key])) {
			r.fault("in the end %s is at version %d, and was told as %d", key, len(truth[key]), n)
		}
	}
	return r.faults
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// begin is a new connection: it goes on after the token.
func (r *reader) begin(s sight) {
	if s.token != r.token {
		r.fault("comes back with token %d after having been given %d: the watcher is at fault", s.token, r.token)
	}
	r.loose, r.snapshot = nil, nil
	after := sort.Search(len(r.reached), func(i int) bool { return r.reached[i].revision > r.token })
	r.reached = r.reached[:after]
}

// sync ends a snapshot.
func (r *reader) sync(s sight) {
	if r.snapshot == nil {
		r.fault("was told that it is synced, without a resync")
		return
	}
	r.asOf(fmt.Sprintf("a snapshot as of revision %d", s.revision), r.snapshot, s.revision)
	r.known, r.token, r.snapshot = r.snapshot, s.token, nil
	if s.token != s.revision {
		r.fault("a snapshot as of revision %d has a token of revision %d", s.revision, s.token)
	}
}

// asOf says where versions by key are not those of a revision.
func (r *reader) asOf(what string, has map[string]int64, revision int64) {
	for _, key := range slices.Sorted(maps.Keys(r.truth)) {
		for i, v := range r.truth[key] {
			version := int64(i + 1)
			switch {
			case v.revision == 0: // nobody was told when it was made
			case v.revision <= revision && has[key] < version:
				r.fault("%s has version %d of %s, and not version %d of revision %d", what, has[key], key, version, v.revision)
			case v.revision > revision && has[key] >= version:
				r.fault("%s has version %d of %s, which is of revision %d", what, has[key], key, v.revision)
			}
		}
	}
}

// version is the newest of a key that was told.
func (r *reader) version(key string) int64 {
	for i := len(r.loose) - 1; i >= 0; i-- {
		if r.loose[i].key == key {
			return r.loose[i].version
		}
	}
	return r.known[key]
}

// note is a change.
func (r *reader) note(s sight) {
	if r.snapshot != nil {
		if r.snapshot[s.key] != 0 {
			r.fault("a snapshot has %s twice", s.key)
		}
		r.snapshot[s.key] = s.version
		return
	}
	last := r.token
	if n := len(r.loose); n > 0 {
		last = r.loose[n-1].revision
	}
	if s.revision < last || s.revision <= r.token {
		r.fault("version %d of %s, of revision %d, was told after revision %d", s.version, s.key, s.revision, last)
	}
	before := r.version(s.key)
	if s.version <= before {
		r.fault("version %d of %s was told after version %d", s.version, s.key, before)
	}
	for v := before + 1; v < s.version; v++ {
		r.left(s.key, v)
	}
	if n := len(r.reached); n == 0 || r.reached[n-1].revision < s.revision {
		r.reached = append(r.reached, s)
	}
	r.loose = append(r.loose, s)
	if s.token == 0 {
		return
	}
	if s.token < s.revision {
		r.fault("version %d of %s, of revision %d, came with a token of revision %d", s.version, s.key, s.revision, s.token)
	}
	for _, one := range r.loose {
		r.known[one.key] = one.version
	}
	r.token, r.loose = s.token, nil
	if s.token > s.revision {
		r.asOf(fmt.Sprintf("what was told with a token of revision %d", s.token), r.known, s.token)
	}
}

// left checks a version that was left out. That is permitted if a newer one existed when the watcher first saw its
// revision or a later one.
func (r *reader) left(key string, version int64) {
	versions := r.truth[key]
	if version >= int64(len(versions)) || versions[version-1].revision == 0 {
		return // judged elsewhere, or not known when
	}
	revision := versions[version-1].revision
	i := sort.Search(len(r.reached), func(i int) bool { return r.reached[i].revision >= revision })
	if i == len(r.reached) {
		return
	}
	if newer, ok := r.asked[versions[version].value]; ok && newer > r.reached[i].at {
		r.fault("version %d of %s, of revision %d, was never seen: revision %d was, before any newer version was asked for", version, key, revision, r.reached[i].revision)
	}
}

// TestJudgeWatch: permitted sequences of events are accepted, and others refused.
func TestJudgeWatch(t *testing.T) {
	truth := map[string][]version{
		"a": {{"a1", 10}, {"a2", 12}, {"a3", 14}},
		"b": {{"b1", 11}, {"b2", 14}},
	}
	asked := map[string]int64{"a1": 1, "b1": 2, "a2": 5, "b2": 20, "a3": 21}
	begin := func(token int64) sight { return sight{kind: started, token: token} }
	change := func(key string, version, revision, at, token int64) sight {
		return sight{kind: changed, key: key, version: version, revision: revision, value: fmt.Sprint(key, version), at: at, token: token}
	}
	sync := func(revision int64) sight { return sight{kind: synced, revision: revision, token: revision} }
	again := sight{kind: resync}
	last := []sight{change("a", 3, 14, 30, 0), change("b", 2, 14, 30, 14)}
	for name, c := range map[string]struct {
		sights []sight
		want   string
	}{
		"everything once": {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), change("b", 1, 11, 3, 11), change("a", 2, 12, 6, 12)}, last...), ""},
		"a snapshot":      {append([]sight{begin(0), again, change("a", 1, 10, 3, 0), change("b", 1, 11, 3, 0), sync(11), change("a", 2, 12, 6, 12)}, last...), ""},
		"a snapshot that is cut off": {append([]sight{begin(0), again, change("a", 1, 10, 3, 0), begin(0), again, change("b", 1, 11, 3, 0), change("a", 2, 12, 3, 0), sync(13)},
			last...), ""},
		"comes back":                          {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), change("b", 1, 11, 3, 11), begin(11), change("a", 2, 12, 6, 12), begin(12)}, last...), ""},
		"is told half a revision again":       {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), change("b", 1, 11, 3, 11), change("a", 2, 12, 6, 12), change("a", 3, 14, 30, 0), begin(12)}, last...), ""},
		"left out, as it was replaced":        {append([]sight{begin(0), again, sync(9), change("b", 1, 11, 30, 11)}, last...), ""},
		"resync in the middle":                {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), again, change("a", 2, 12, 8, 0), change("b", 1, 11, 8, 0), sync(12)}, last...), ""},
		"a listing":                           {append([]sight{begin(0), again, sync(9), change("b", 1, 11, 7, 0), change("a", 2, 12, 7, 13)}, last...), ""},
		"half a listing, and again elsewhere": {append([]sight{begin(0), again, sync(9), change("b", 1, 11, 7, 0), begin(9), change("a", 1, 10, 8, 10), change("b", 1, 11, 8, 11), change("a", 2, 12, 8, 12)}, last...), ""},
		"a listing that lacks one":            {append([]sight{begin(0), again, sync(9), change("a", 2, 12, 7, 13), change("b", 1, 11, 7, 11)}, last...), "token of revision 13 has version 0 of b"},
		"a token of the past":                 {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 9)}, last...), "token of revision 9"},
		"twice":                               {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), change("a", 1, 10, 3, 10)}, last...), "after"},
		"twice in one revision":               {append([]sight{begin(0), again, sync(9), change("a", 3, 14, 30, 0), change("a", 3, 14, 30, 0)}, last[1]), "after version 3"},
		"again after coming back":             {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), begin(10), change("a", 1, 10, 4, 10)}, last...), "after revision"},
		"in another order":                    {append([]sight{begin(0), again, sync(9), change("b", 1, 11, 3, 11), change("a", 1, 10, 3, 10)}, last...), "after revision"},
		"left out, and nothing was newer":     {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), change("a", 2, 12, 6, 12)}, last...), "version 1 of b"},
		"left out by who came back":           {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 10), begin(10), change("a", 2, 12, 6, 12)}, last...), "version 1 of b"},
		"the end is missing":                  {[]sight{begin(0), again, sync(9), change("b", 1, 11, 3, 11), change("a", 2, 12, 6, 12), change("b", 2, 14, 30, 14)}, "in the end a is at version 3"},
		"a snapshot that lacks one":           {append([]sight{begin(0), again, change("a", 1, 10, 3, 0), sync(11), change("a", 2, 12, 6, 12)}, last...), "not version 1 of revision 11"},
		"a snapshot of an old version":        {append([]sight{begin(0), again, change("a", 1, 10, 3, 0), change("b", 1, 11, 3, 0), sync(13)}, last...), "not version 2 of revision 12"},
		"a snapshot that knows more":          {append([]sight{begin(0), again, change("a", 2, 12, 6, 0), change("b", 1, 11, 3, 0), sync(11)}, last...), "which is of revision 12"},
		"a snapshot has one twice":            {append([]sight{begin(0), again, change("a", 2, 12, 6, 0), change("a", 2, 12, 6, 0), change("b", 1, 11, 3, 0), sync(13)}, last...), "twice"},
		"a token of the future":               {append([]sight{begin(0), again, sync(9), change("a", 1, 10, 3, 11)}, last...), "token of revision 11"},
	} {
		faults := judgeWatch(c.sights, truth, asked)
		if c.want == "" && len(faults) > 0 || c.want != "" && !strings.Contains(strings.Join(faults, "\n"), c.want) {
			t.Errorf("%s: %q, want %q", name, faults, c.want)
		}
	}
}
