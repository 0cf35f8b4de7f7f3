package memory

import (
	"context"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"dyno/services/bot/store"
)

// maxObjects bounds the objects of lasting kinds, and those of the others. The oldest goes first.
const maxObjects = store.MaxObjects / 10

// objects are of this process, and end with it: those of lasting kinds, and others. They are in the order of their making.
type objects map[bool]*lru.Cache[[2]string, store.Object]

func newObjects() objects {
	some, _ := lru.New[[2]string, store.Object](maxObjects) // its size is possible
	others, _ := lru.New[[2]string, store.Object](maxObjects)
	return objects{true: some, false: others}
}

// Keep is store.Objects's.
func (l objects) Keep(_ context.Context, list ...store.Object) error {
	for _, o := range list {
		l[store.Lasting[o.Kind]].PeekOrAdd([2]string{o.Kind, o.ID}, o)
	}
	return nil
}

// Forget is store.Objects's.
func (l objects) Forget(_ context.Context, o store.Object) error {
	l[store.Lasting[o.Kind]].Remove([2]string{o.Kind, o.ID})
	return nil
}

// Objects is store.Objects's.
func (l objects) Objects(_ context.Context, by store.Object, after string, most int) (list []store.Object, _ error) {
	if o, known := l[store.Lasting[by.Kind]].Peek([2]string{by.Kind, by.ID}); known {
		return []store.Object{o}, nil
	} else if by.ID != "" {
		return nil, nil
	}
	passed := after == ""
	for _, o := range slices.Backward(l[store.Lasting[by.Kind]].Values()) {
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
