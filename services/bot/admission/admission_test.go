package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAdmission: who finds no place waits in line, as long as they may.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, 2, 10*time.Second, 1)
		v := a.NewTenant()
		if d, err := a.Enter(t.Context(), v); d != 0 || err != nil {
			t.Errorf("%v, %v", d, err)
		}
		type answer struct {
			d   time.Duration
			err error
		}
		answers := make(chan answer, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), ctx} {
			go func() {
				d, err := a.Enter(ctx, v)
				answers <- answer{d, err}
			}()
		}
		synctest.Wait()
		if _, err := a.Enter(t.Context(), v); !errors.Is(err, ErrCrowded) {
			t.Errorf("beyond: %v", err)
		}
		if got := <-answers; got.d != time.Second || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("who goes: %+v", got)
		}
		time.Sleep(2 * time.Second)
		a.Leave(v)
		if got := <-answers; got.d != 3*time.Second || got.err != nil {
			t.Errorf("who waits: %+v", got)
		}
		if d, err := a.Enter(t.Context(), v); d != 10*time.Second || !errors.Is(err, ErrCrowded) {
			t.Errorf("too long: %v, %v", d, err)
		}
		a.Leave(v)
		a.Wait()
	})
}

// TestAdmissionByKey: one key has half of the places, and of the line, and its requests wait for one another.
func TestAdmissionByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(4, 4, 10*time.Second, 2)
		one, two := a.NewTenant(), a.NewTenant()
		enter := func(v *Tenant, want error) {
			t.Helper()
			if d, err := a.Enter(t.Context(), v); !errors.Is(err, want) || d != 0 {
				t.Errorf("after %v: %v, want %v", d, err, want)
			}
		}
		enter(one, nil)
		enter(one, nil)
		waited := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				d, err := a.Enter(t.Context(), one)
				if err != nil {
					t.Error(err)
				}
				waited <- d
			}()
		}
		synctest.Wait()
		enter(one, ErrCrowded)
		enter(two, nil)
		enter(two, nil)
		a.Leave(two)
		synctest.Wait()
		if n := a.Waiting(); n != 2 || a.Taken() != 3 {
			t.Errorf("%d wait, %d places are taken: one key has what another has left", n, a.Taken())
		}
		enter(two, nil)
		time.Sleep(time.Second)
		a.Leave(one)
		a.Leave(one)
		for range 2 {
			if d := <-waited; d != time.Second {
				t.Errorf("waited for %v", d)
			}
		}
		for _, v := range []*Tenant{one, one, two, two} {
			a.Leave(v)
		}
		a.Wait()
		if a.Taken() != 0 || a.Waiting() != 0 {
			t.Errorf("%d places are taken, %d wait", a.Taken(), a.Waiting())
		}
	})
}
