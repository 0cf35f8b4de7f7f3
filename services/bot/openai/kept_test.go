package openai

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestState: what has ended, and what it has used.
func TestState(t *testing.T) {
	for body, want := range map[string]struct {
		ended, complete bool
		usage           *Usage
	}{
		`{"status":"in_progress","usage":null}`: {},
		`{"status":"cancelling"}`:               {},
		`{"object":"list","data":[]}`:           {},
		`{"status":"completed","usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}`: {true, true, &Usage{Prompt: 9, Completion: 2, Cached: 4}},
		`{"status":"incomplete","usage":{"input_tokens":0,"output_tokens":0}}`:                                           {true, true, nil},
		`{"status":"failed","usage":"none"}`:                                                                             {true, false, nil},
		`{"status":"expired","usage":{"input_tokens":-1,"output_tokens":2}}`:                                             {true, false, nil},
		`{"status":"cancelled","usage":{"prompt_tokens":1,"completion_tokens":2}}`:                                       {true, false, &Usage{Prompt: 1, Completion: 2}},
	} {
		var s State
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		if u := s.Usage(); s.Ended() != want.ended || s.Complete() != want.complete || !reflect.DeepEqual(u, want.usage) {
			t.Errorf("%s: %v %v %+v", body, s.Ended(), s.Complete(), u)
		}
	}
}

// TestPlus: a sum has the sum of each number.
func TestPlus(t *testing.T) {
	var u, v, want Usage
	for i := range reflect.TypeFor[Usage]().NumField() {
		for of, n := range map[*Usage]int64{&u: 1 << i, &v: 3, &want: 1<<i + 3} {
			if f := reflect.ValueOf(of).Elem().Field(i); f.CanInt() {
				f.SetInt(n)
			} else {
				f.SetBool(of != &u)
			}
		}
	}
	if got := u.Plus(v); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
