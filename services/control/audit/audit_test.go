package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// entriesOf is a Journal of entries in the order of their names.
type entriesOf []store.Entry

func (l entriesOf) Journal(_ context.Context, after string, limit int) (entries []store.Entry, more bool, err error) {
	for _, e := range l {
		switch {
		case e.Name <= after:
		case len(entries) == limit:
			return entries, true, nil
		default:
			entries = append(entries, e)
		}
	}
	return entries, false, nil
}

// hour names an entry as the store names those of an hour after 1970.
func hour(n int) string {
	return fmt.Sprintf("%016x%016x", time.Unix(int64(n+1)*3600, 0).UnixNano(), 1)
}

// journal has groups of changes, one an hour, and the names of their resources.
func journal(groups ...int) (l entriesOf, names []string) {
	for i, n := range groups {
		e := store.Entry{Name: hour(i)}
		for j := range n {
			one := resource.Audit{Ref: resource.Ref{Namespace: []string{"a", "b"}[j%2], Name: fmt.Sprintf("%d.%d", i, j)}}
			names = append(names, one.Name)
			e.Notes = append(e.Notes, one.AppendJSON(nil))
		}
		l = append(l, e)
	}
	return l, names
}

func everything(string) bool { return true }

// TestPages: a page has the wanted number of changes, however they were grouped; each change is on one page.
func TestPages(t *testing.T) {
	for _, groups := range [][]int{{}, {1}, {0}, {0, 0, 3}, {5, 1, 12, 0, 2}, slices.Repeat([]int{3}, 2*readEntries)} {
		l, want := journal(groups...)
		for _, limit := range []int{1, 2, 3, 5, 50, len(want) + 1} {
			var got []string
			q := Query{Limit: limit, May: everything}
			for more := true; more; {
				page, err := Read(t.Context(), l, q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Items) > limit || page.Next != "" && len(page.Items) < limit {
					t.Fatalf("%v, limit %d: a page of %d, and then %q", groups, limit, len(page.Items), page.Next)
				}
				for _, one := range page.Items {
					got = append(got, one.Name)
				}
				q.After, more = page.Next, page.Next != ""
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, limit %d: %q, want %q", groups, limit, got, want)
			}
		}
	}
}

// TestQuery: a page begins at the given place, and has the visible changes.
func TestQuery(t *testing.T) {
	l, _ := journal(2, 2, 2)
	for name, c := range map[string]struct {
		query Query
		want  string
	}{
		"all":              {Query{}, "0.0 0.1 1.0 1.1 2.0 2.1"},
		"from":             {Query{From: time.Unix(7200, 0)}, "1.0 1.1 2.0 2.1"},
		"from between":     {Query{From: time.Unix(7201, 0)}, "2.0 2.1"},
		"from before 1970": {Query{From: time.Unix(-1, 0)}, "0.0 0.1 1.0 1.1 2.0 2.1"},
		"after, and from":  {Query{After: hour(1), From: time.Unix(0, 0)}, "2.0 2.1"},
		"within":           {Query{After: hour(1) + ":1"}, "1.1 2.0 2.1"},
		"far within":       {Query{After: hour(1) + ":9"}, "2.0 2.1"},
		"nothing":          {Query{From: time.Unix(1e9, 0)}, ""},
		"some":             {Query{May: func(namespace string) bool { return namespace == "b" }}, "0.1 1.1 2.1"},
	} {
		c.query.Limit = 100
		if c.query.May == nil {
			c.query.May = everything
		}
		page, err := Read(t.Context(), l, c.query)
		var got []string
		for _, one := range page.Items {
			got = append(got, one.Name)
		}
		if err != nil || strings.Join(got, " ") != c.want || page.Items == nil || page.Next != "" {
			t.Errorf("%s: %q, %+v, %v", name, got, page, err)
		}
	}
	for _, place := range []string{":", ":5", "x:1", "x:y", ":-1"} { // nobody was told such a one
		if _, err := Read(t.Context(), l, Query{After: place, Limit: 1, May: everything}); err != nil {
			t.Errorf("after %q: %v", place, err)
		}
	}
}

var errAway = errors.New("away")

type away struct{}

func (away) Journal(context.Context, string, int) ([]store.Entry, bool, error) {
	return nil, false, errAway
}

func TestFaults(t *testing.T) {
	q := Query{Limit: 1, May: everything}
	if _, err := Read(t.Context(), away{}, q); !errors.Is(err, errAway) {
		t.Error(err)
	}
	if _, err := Read(t.Context(), entriesOf{{Name: "x", Notes: [][]byte{[]byte("{")}}}, q); err == nil || !strings.Contains(err.Error(), "journal x: ") {
		t.Error(err)
	}
}
