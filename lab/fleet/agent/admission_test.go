package agent

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// What an agent takes depends on its terms, and on the parts that run.
func TestAdmission(t *testing.T) {
	for name, c := range map[string]struct {
		terms   Terms
		running []int64 // fences
		fence   int64
		want    string // of the error
	}{
		"free":           {},
		"fenced":         {fence: 3},
		"cordoned":       {terms: Terms{Cordoned: true}, fence: 3, want: "cordoned"},
		"lower":          {terms: Terms{Fence: 4}, fence: 3, want: "fence 3: another run has got the machine, with fence 4"},
		"equal":          {terms: Terms{Fence: 4, Exclusive: true}, fence: 4},
		"ahead":          {terms: Terms{Fence: 4, Exclusive: true}, fence: 5},
		"held":           {terms: Terms{Fence: 4, Exclusive: true}, want: "for itself"},
		"given back":     {terms: Terms{Fence: 4}},
		"shared":         {running: []int64{0}},
		"not alone":      {running: []int64{0}, fence: 1, want: "parts of another run"},
		"another alone":  {running: []int64{1}, want: "parts of another run"},
		"the same":       {running: []int64{2}, fence: 2},
		"one was higher": {running: []int64{2}, fence: 1, want: "with fence 2"},
	} {
		var a admission
		a.set(c.terms)
		for _, fence := range c.running {
			if _, _, err := a.enter(t.Context(), fence); err != nil {
				t.Fatal(err)
			}
		}
		_, leave, err := a.enter(t.Context(), c.fence)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			leave()
		}
	}
}

// A part of a run that lost the machine ends before the next run's part begins, or when terms change.
func TestAdmissionEndsStaleParts(t *testing.T) {
	for name, next := range map[string]func(a *admission) error{
		"a part": func(a *admission) error {
			_, _, err := a.enter(context.Background(), 2)
			return err
		},
		"terms": func(a *admission) error {
			a.set(Terms{Fence: 2})
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var a admission
			ctx, leave, err := a.enter(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			began := make(chan error, 1)
			go func() { began <- next(&a) }()
			synctest.Wait()
			if ctx.Err() == nil {
				t.Errorf("%s: the stale part runs on", name)
			}
			select {
			case err := <-began:
				t.Errorf("%s: it began before the other had ended: %v", name, err)
			default:
			}
			leave()
			if err := <-began; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestFenceOf(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "7": 7, "0": -1, "-1": -1, "x": -1} {
		got, err := fenceOf(&http.Request{Header: http.Header{FenceHeader: {text}}})
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
