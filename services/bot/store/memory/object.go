package memory

import (
	"context"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"dyno/services/bot/store"
)

// maxObjects bounds the objects of all kinds. The oldest goes first.
const maxObjects = store.MaxObjects / 10

// objects are of this process, and end with it. They are in the order of their making.
type objects struct {
	*lru.Cache[[2]string, store.Object]
}

func newObjects() objects {
	cache, _ := lru.New[[2]string, store.Object](maxObjects) // its size is possible
	return objects{cache}
}

// Keep is store.Objects's.
func (l objects) Keep(_ context.Context, o store.Object) error {
	l.PeekOrAdd([2]string{o.Kind, o.ID}, o)
	return nil
}

// Forget is store.Objects's.
func (l objects) Forget(_ context.Context, o store.Object) error {
	l.Remove([2]string{o.Kind, o.ID})
	return nil
}

// Objects is store.Objects's.
func (l objects) Objects(_ context.Context, by store.Object, after string, most int) (list []store.Object, _ error) {
	if o, known := l.Peek([2]string{by.Kind, by.ID}); known {
		return []store.Object{o}, nil
	} else if by.ID != "" {
		return nil, nil
	}
	passed := after == ""
	for _, o := range slices.Backward(l.Values()) {
		if o.Kind == by.Kind && o.BelongsTo(by) && passed && len(list) < most {
			list = append(list, o)
		}
		passed = passed || o.Kind == by.Kind && o.ID == after
	}
	return list, nil
}

// erase has objects forget that they are a user's. All are entered again, so that their order stays.
func (l objects) erase(user string) {
	for _, name := range l.Keys() {
		if o, known := l.Peek(name); known {
			if o.User == user {
				o.User = ""
			}
			l.Add(name, o)
		}
	}
}
