package leak

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// A goroutine that ends later than goleak waits, as net/http's connections do, is no leak.
func TestLateIsNoLeak(t *testing.T) {
	go func() { <-time.After(600 * time.Millisecond) }()
	if err := find(timeout); err != nil {
		t.Error(err)
	}
}

type passing func()

func (p passing) Run() int { p(); return 0 }

type failing struct{}

func (failing) Run() int { return 3 }

func TestLeakIsFound(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	go stay(end)
	if err := find(0); err == nil || !strings.Contains(err.Error(), "leak.stay") {
		t.Errorf("%v: want the goroutine's name", err)
	}
}

func stay(until chan struct{}) { <-until }

func TestChecked(t *testing.T) {
	ran := false
	if code := Checked(passing(func() { ran = true })); code != 0 || !ran {
		t.Errorf("code %d of tests that pass; run %v", code, ran)
	}
	if code := Checked(failing{}); code != 3 {
		t.Errorf("code %d, want that of the tests", code)
	}
}
