package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dyno/services/bot/store"
)

// maxObjects bounds the objects of lasting kinds, and those of the others. The oldest goes first.
const maxObjects = store.MaxObjects / 10

// objects are of this process, and end with it. They are in the order of their making.
type objects struct {
	lasting, others *lru.Cache[[2]string, *store.Object]
	mu              *sync.Mutex // guards what changes of them: bills and users
}

func newObjects() objects {
	some, _ := lru.New[[2]string, *store.Object](maxObjects) // its size is possible
	others, _ := lru.New[[2]string, *store.Object](maxObjects)
	return objects{some, others, &sync.Mutex{}}
}

// of returns where objects of a kind are.
func (l objects) of(kind string) *lru.Cache[[2]string, *store.Object] {
	if store.Lasting[kind] {
		return l.lasting
	}
	return l.others
}

// Keep is store.Objects's.
func (l objects) Keep(_ context.Context, list ...store.Object) error {
	for _, o := range list {
		l.of(o.Kind).PeekOrAdd([2]string{o.Kind, o.ID}, &o)
	}
	return nil
}

// Forget is store.Objects's.
func (l objects) Forget(_ context.Context, o store.Object) error {
	l.of(o.Kind).Remove([2]string{o.Kind, o.ID})
	return nil
}

// Objects is store.Objects's.
func (l objects) Objects(_ context.Context, by store.Object, after string, most int) (list []store.Object, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, known := l.of(by.Kind).Peek([2]string{by.Kind, by.ID}); known {
		return []store.Object{*o}, nil
	} else if by.ID != "" {
		return nil, nil
	}
	passed := after == ""
	for _, o := range slices.Backward(l.of(by.Kind).Values()) {
		if o.Kind == by.Kind && o.BelongsTo(by) && passed && len(list) < most {
			list = append(list, *o)
		}
		passed = passed || o.Kind == by.Kind && o.ID == after
	}
	return list, nil
}

// Due is store.Objects's.
func (l objects) Due(_ context.Context, before time.Time, most int) (list []store.Object, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.others.Values() { // what is charged by an estimate does not last
		if !o.Due.IsZero() && o.Due.Before(before) {
			list = append(list, *o)
		}
	}
	slices.SortStableFunc(list, func(a, b store.Object) int { return a.Due.Compare(b.Due) })
	return list[:min(most, len(list))], nil
}

// Bill is store.Objects's.
func (l objects) Bill(_ context.Context, o store.Object, bill string, due time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, known := l.of(o.Kind).Peek([2]string{o.Kind, o.ID})
	if !known || is.Bill != o.Bill || !due.IsZero() && !is.Due.Equal(o.Due) {
		return false, nil
	}
	is.Bill, is.Due = bill, due
	return true, nil
}

// erase has objects forget that they are a user's.
func (l objects) erase(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range append(l.lasting.Values(), l.others.Values()...) {
		if o.User == user {
			o.User = ""
		}
	}
}
