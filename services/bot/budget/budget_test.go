package budget

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestShares(t *testing.T) {
	r := New(10, 2)
	var a, b Tenant
	one, two, nobody := r.Grant(&a), r.Grant(&b), r.Grant(nil)
	step := func(what string, ok, want bool, held int64) {
		t.Helper()
		if ok != want || r.Held() != held {
			t.Errorf("%s: %v, %d are held; want %v, %d", what, ok, r.Held(), want, held)
		}
	}
	step("half", one.Hold(5), true, 5)
	step("as much again", one.Hold(5), true, 5)
	step("more than half", one.Hold(6), false, 5)
	another := r.Grant(&a)
	step("more than half, by two", another.Hold(1), false, 5)
	step("another's", two.Hold(3), true, 8)
	step("nobody's", nobody.Hold(3), false, 8)
	step("nobody's rest", nobody.Hold(2), true, 10)
	step("more than all", two.Hold(4), false, 10)
	one.Keep(7)
	step("no more is given back than is kept", true, true, 10)
	one.Keep(1)
	step("what was given back", two.Hold(5), true, 8)
	for _, s := range []*Grant{&one, &two, &nobody, &another} {
		s.Keep(0)
		s.Keep(0)
	}
	step("all given back", r.Grant(&a).hold(5) && r.Grant(&b).hold(5), true, 10)
	alone := New(10, 1).Grant(&Tenant{})
	if !alone.Hold(10) || alone.Hold(11) {
		t.Error("who is alone may have all, and no more")
	}
	var none Grant
	if !none.Hold(1 << 60) {
		t.Error("the zero grant is bounded")
	}
	none.Keep(0)
}

func (s Grant) hold(n int64) bool { return s.Hold(n) }

func TestReader(t *testing.T) {
	r := New(5, 1)
	s := r.Grant(nil)
	if b, err := io.ReadAll(s.Reader(strings.NewReader("12345"))); string(b) != "12345" || err != nil || r.Held() != 5 {
		t.Errorf("%q %v, %d are held", b, err, r.Held())
	}
	s.Keep(0)
	if b, err := io.ReadAll(s.Reader(strings.NewReader("123456"))); !errors.Is(err, ErrFull) || r.Held() != 0 {
		t.Errorf("%q %v, %d are held", b, err, r.Held())
	}
}

// However many take and give back at once, nobody has more than there is, and nothing is lost.
func TestAtOnce(t *testing.T) {
	r := New(100, 2)
	var of Tenant
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				s := r.Grant(&of)
				if s.Hold(20) && of.held.Load() < 20 {
					t.Error("not counted")
				}
				s.Keep(0)
			}
		})
	}
	all.Wait()
	if r.Held() != 0 || of.held.Load() != 0 {
		t.Errorf("%d and %d are left", r.Held(), of.held.Load())
	}
}
