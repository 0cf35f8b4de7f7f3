package queue

import (
	"slices"
	"time"
)

// Timeouts finds what takes longer than a time of its kind. There is one list for each time, whose
// head is the next to expire.
type Timeouts struct {
	ofKind  []uint8 // its list, from 1; 0: its time is the longest
	lists   []timeoutList
	started []int64 // by place
}

// A timeoutList is the places with the same time.
type timeoutList struct {
	List
	timeout int64
}

// NewTimeouts returns timeouts for length places, with the time of each kind. Kinds whose time is 0, or
// not shorter than the longest, have none of their own.
func NewTimeouts(ofKind []time.Duration, longest time.Duration, length int) Timeouts {
	t := Timeouts{ofKind: make([]uint8, len(ofKind))}
	for i, timeout := range ofKind {
		if timeout == 0 || timeout >= longest {
			continue
		}
		at := slices.IndexFunc(t.lists, func(l timeoutList) bool { return l.timeout == int64(timeout) })
		if at < 0 {
			at = len(t.lists)
			t.lists = append(t.lists, timeoutList{NewList(length), int64(timeout)})
		}
		t.ofKind[i] = uint8(at + 1) //nolint:gosec // bounded by scenario.MaxTimeouts
	}
	if len(t.lists) > 0 {
		t.started = make([]int64, length)
	}
	return t
}

// Start adds a place of the given kind that starts at a time. It returns the list to remove it from.
func (t *Timeouts) Start(i int32, kind int, at int64) (list uint8) {
	if len(t.lists) == 0 {
		return 0
	}
	return t.start(i, kind, at)
}

// start is apart, so that Start costs no call where nothing has a time of its own.
func (t *Timeouts) start(i int32, kind int, at int64) (list uint8) {
	if list = t.ofKind[kind]; list > 0 {
		t.started[i] = at
		t.lists[list-1].Push(i)
	}
	return list
}

// End removes a place from the list that Start returned.
func (t *Timeouts) End(i int32, list uint8) {
	if list > 0 {
		t.remove(i, list)
	}
}

func (t *Timeouts) remove(i int32, list uint8) { t.lists[list-1].Remove(i) }

// Next returns when the first place expires: later than any time if none does.
func (t *Timeouts) Next() int64 {
	next := int64(never)
	for k := range t.lists {
		if l := &t.lists[k]; l.Head() != None {
			next = min(next, t.started[l.Head()]+l.timeout)
		}
	}
	return next
}

// Expired returns a place that has taken too long, or None.
func (t *Timeouts) Expired(now int64) int32 {
	for k := range t.lists {
		if l := &t.lists[k]; l.Head() != None && t.started[l.Head()]+l.timeout <= now {
			return l.Head()
		}
	}
	return None
}
