package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue behaves as a bounded slice does.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := FIFO[int]{Limit: rapid.IntRange(1, 200).Draw(t, "limit")}
		var model []int
		for step := range rapid.IntRange(0, 600).Draw(t, "steps") {
			if len(model) > 0 && rapid.Bool().Draw(t, "pop") {
				if got := q.Pop(); got != model[0] {
					t.Fatalf("popped %d, want %d", got, model[0])
				}
				model = model[1:]
			} else if rapid.IntRange(0, 4).Draw(t, "front") == 0 {
				if ok := q.PushFront(step); ok != (len(model) < q.Limit) {
					t.Fatalf("push in front with %d of %d says %v", len(model), q.Limit, ok)
				} else if ok {
					model = slices.Insert(model, 0, step)
				}
			} else if ok := q.Push(step); ok != (len(model) < q.Limit) {
				t.Fatalf("push with %d of %d says %v", len(model), q.Limit, ok)
			} else if ok {
				model = append(model, step)
			}
			if q.Len() != len(model) {
				t.Fatalf("count %d, want %d", q.Len(), len(model))
			}
			for i, want := range model {
				if got := *q.At(i); got != want {
					t.Fatalf("item %d is %d, want %d", i, got, want)
				}
			}
		}
	})
}

// The list keeps the order of additions whatever is removed.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length = 20
		l := NewList(length)
		var model []int32
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			i := int32(rapid.IntRange(0, length-1).Draw(t, "member"))
			if at := slices.Index(model, i); at >= 0 {
				l.Remove(i)
				model = slices.Delete(model, at, at+1)
			} else {
				l.Push(i)
				model = append(model, i)
			}
			var forward, backward []int32
			for i := l.Head(); i != None; i = l.After(i) {
				forward = append(forward, i)
			}
			for i := l.tail; i != None; i = l.links[i].prev {
				backward = append(backward, i)
			}
			slices.Reverse(backward)
			if !slices.Equal(forward, model) || !slices.Equal(backward, model) {
				t.Fatalf("list %v, backwards %v, want %v", forward, backward, model)
			}
		}
	})
}
