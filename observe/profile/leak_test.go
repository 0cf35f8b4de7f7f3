package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:noinline
func leaking(end <-chan struct{}) { <-end }

func TestLeftover(t *testing.T) {
	url := offering(t)
	before, err := Source{URL: url}.Fetch(t.Context(), Goroutine, 0)
	if err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	for range 3 {
		go func() {
			leaking(end)
			ended <- struct{}{}
		}()
	}
	defer func() {
		close(end)
		for range 3 {
			<-ended
		}
	}()
	// They must have reached the place where they wait.
	var left []Stack
	for range 1000 {
		after, err := Source{URL: url}.Fetch(t.Context(), Goroutine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if left, err = Leftover(before, after); err != nil {
			t.Fatal(err)
		}
		for _, s := range left {
			if strings.Contains(strings.Join(s.Functions, " "), "profile.leaking") && s.More() == 3 {
				return
			}
		}
	}
	t.Errorf("3 goroutines are left in leaking; found %+v", left)
}

func TestLeftoverOfStacks(t *testing.T) {
	before := made("goroutine", map[string]int64{"runtime.gopark main.a": 2, "runtime.gopark main.b": 5, "main.gone": 1})
	after := made("goroutine", map[string]int64{
		"runtime.gopark main.a": 4, "runtime.gopark main.b": 5, "main.c": 7,
		"runtime/pprof.runtime_goroutineProfileWithLabels runtime/pprof.writeGoroutine net/http.(*conn).serve": 1,
	})
	got, err := Leftover(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := []Stack{{[]string{"main.c:1"}, 0, 7}, {[]string{"runtime.gopark:1", "main.a:1"}, 2, 4}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := Leftover(before, made("cpu", nil)); err == nil || !strings.Contains(err.Error(), "after is no goroutine profile") {
		t.Errorf("%v", err)
	}
}
