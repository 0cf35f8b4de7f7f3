package answer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestContext: an answer goes on as long as somebody reads it, and for some time after.
func TestContext(t *testing.T) {
	begin := func(t *testing.T, drain time.Duration) (w *Context, leave context.CancelFunc) {
		client, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		w = New(client, t.Context(), drain)
		t.Cleanup(w.End)
		return w, leave
	}
	t.Run("drained", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, leave := begin(t, time.Minute)
			if leave(); !w.Gone() {
				t.Error("there is a client")
			}
			if time.Sleep(time.Minute - 1); w.Err() != nil {
				t.Error("ended too soon")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !errors.Is(context.Cause(w), ErrLeft) {
				t.Error("goes on")
			}
		})
	})
	t.Run("read on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, leave := begin(t, time.Minute)
			leave()
			time.Sleep(time.Minute - 1)
			if w.Came(); w.Gone() {
				t.Error("there is no client")
			}
			time.Sleep(time.Hour)
			w.Came()
			w.Left()
			if time.Sleep(time.Hour); w.Err() != nil {
				t.Error("ended although it is read")
			}
			w.Left()
			time.Sleep(time.Minute)
			synctest.Wait()
			if w.Err() == nil {
				t.Error("goes on")
			}
		})
	})
	t.Run("read while the first is there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, leave := begin(t, time.Minute)
			w.Came()
			leave()
			w.Leave()
			synctest.Wait()
			if w.Gone() || w.Err() != nil {
				t.Error("it is read")
			}
			if w.Left(); !w.Gone() {
				t.Error("there is a client")
			}
			w.End()
			w.Left() // a reader of what was kept, later
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, leave := begin(t, 0)
			w.Came()
			leave()
			synctest.Wait()
			if w.Err() != nil {
				t.Error("ended although it is read")
			}
			if w.Left(); w.Err() == nil {
				t.Error("goes on without a client")
			}
		})
	})
	t.Run("cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gateway, end := context.WithCancel(t.Context())
			defer end()
			w := New(t.Context(), gateway, time.Minute)
			defer w.End()
			synctest.Wait()
			if w.Gone() || w.Err() != nil {
				t.Error("ended too soon")
			}
			end()
			synctest.Wait()
			if !w.Gone() || !errors.Is(context.Cause(w), ErrLeft) {
				t.Error("goes on although the gateway has ended")
			}
		})
	})
}
