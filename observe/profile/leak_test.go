package profile

import (
	"strings"
	"testing"
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
