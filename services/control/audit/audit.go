// Package audit reads the history of changes and their authors, page by page, from the store's journal. The store
// writes and removes journal entries, because it recognizes by them a group that it sends twice. This package reads
// the notes in the entries, and computes where the next page begins.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// A Journal has the notes of changes, in entries, each of a group of changes. *store.Store is one.
type Journal interface {
	// Journal returns up to limit entries after the one named after, oldest first, and whether there are
	// more.
	Journal(ctx context.Context, after string, limit int) (entries []store.Entry, more bool, err error)
}

// A Query says which page is wanted.
type Query struct {
	After string    // Next of the previous page; "" begins at From
	From  time.Time // the earliest time; the zero time is the beginning
	Limit int       // how many changes are read
	// May reports whether the reader may see the changes in a namespace; others are left out.
	May func(namespace string) bool
}

// A Page is some of the audit, oldest first.
type Page struct {
	Items []resource.Audit
	Next  string // for Query.After; "" says that there are no more
}

// readEntries is how many journal entries are read at once: each has the notes of a group of changes.
const readEntries = 32

// Read returns a page.
func Read(ctx context.Context, journal Journal, q Query) (Page, error) {
	if q.After == "" && !q.From.IsZero() {
		q.After = store.JournalBefore(q.From)
	}
	list, last, more, err := read(ctx, journal, q.After, q.Limit)
	if err != nil {
		return Page{}, err
	}
	page := Page{Items: []resource.Audit{}}
	for _, one := range list {
		if q.May(one.Namespace) {
			page.Items = append(page.Items, one)
		}
	}
	if more {
		page.Next = last
	}
	return page, nil
}

// read returns up to limit notes of the journal after a place, oldest first, and the next page's place. more reports
// whether there are others. A place is an entry's name, or NAME:N after the N-th note of an entry.
func read(ctx context.Context, journal Journal, after string, limit int) (list []resource.Audit, last string, more bool, err error) {
	last = after
	name, text, within := strings.Cut(after, ":")
	seen := 0 // notes of the entry name that were returned before
	if within {
		if seen, err = strconv.Atoi(text); err != nil || seen < 0 {
			seen = 0 // no page returned such a place: read the whole entry
		}
		after = upTo(name)
	}
	for {
		found, others, err := journal.Journal(ctx, after, min(limit-len(list), readEntries))
		if err != nil {
			return nil, "", false, err
		}
		for i, e := range found {
			after = e.Name
			notes := e.Notes
			if within && e.Name == name {
				notes = notes[min(seen, len(notes)):]
			}
			for n, note := range notes {
				if len(list) == limit {
					return list, fmt.Sprintf("%s:%d", e.Name, len(e.Notes)-len(notes)+n), true, nil
				}
				var one resource.Audit
				if err := json.Unmarshal(note, &one); err != nil {
					return nil, "", false, fmt.Errorf("journal %s: %w", e.Name, err)
				}
				list = append(list, one)
			}
			last = e.Name
			if len(list) == limit {
				return list, last, others || i+1 < len(found), nil
			}
		}
		if !others || len(found) == 0 {
			return list, last, others, nil
		}
	}
}

// upTo returns the argument after with which Journal begins at an entry: its name without the last digit, and a
// character that sorts before all digits.
func upTo(name string) string {
	if name == "" {
		return ""
	}
	return name[:len(name)-1] + "/"
}
