package codec

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// sample has the kinds of fields that the gateway's messages have.
type sample struct {
	Name  string                     `json:"name"`
	Count int                        `json:"count"`
	Ratio float64                    `json:"ratio"`
	Yes   bool                       `json:"yes,omitempty"`
	Text  *string                    `json:"text,omitempty"`
	List  []part                     `json:"list,omitempty"`
	Empty []part                     `json:"empty"`
	Raw   json.RawMessage            `json:"raw,omitempty"`
	Any   any                        `json:"any"`
	Map   map[string]json.RawMessage `json:"map,omitempty"`
}

type part struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

// every runs a test with each library, in both ways.
func every(t *testing.T, test func(t *testing.T, c *Codec)) {
	for _, l := range Libraries() {
		for name, ahead := range map[string]bool{"copied": false, "ahead": true} {
			t.Run(string(l)+"/"+name, func(t *testing.T) {
				c, err := New(l)
				if err != nil {
					t.Fatal(err)
				}
				c.Ahead = ahead
				if c.Library() != l {
					t.Errorf("%s", c.Library())
				}
				test(t, c)
			})
		}
	}
}

// TestSame: encoding/json reads the output of every library as it reads its own. All can be put into a page, and
// all read the same values.
func TestSame(t *testing.T) {
	every(t, func(t *testing.T, c *Codec) {
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.String().Draw(t, "text")
			in := sample{
				Name: rapid.String().Draw(t, "name") + "<&>", Count: rapid.Int().Draw(t, "count"), Ratio: rapid.Float64Range(-1e9, 1e9).Draw(t, "ratio"), Yes: rapid.Bool().Draw(t, "yes"),
				List: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) part { return part{rapid.IntRange(0, 9).Draw(t, "i"), rapid.String().Draw(t, "s")} }), 0, 3).Draw(t, "list"),
				Raw:  json.RawMessage(`{"a":[1,2]}`), Any: map[string]any{"b": 1.5, "a": text},
			}
			if rapid.Bool().Draw(t, "has text") {
				in.Text = &text
			}
			usual, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Append([]byte("before"), in)
			if err != nil || !strings.HasPrefix(string(got), "before{") {
				t.Fatalf("%s, %v", got, err)
			}
			again, err := c.Append(nil, in)
			if err != nil || string(again) != string(got[len("before"):]) || strings.ContainsAny(string(again), "<>&\n") {
				t.Fatalf("%s, %v\nwant %s", again, err, got)
			}
			var want, meant, read sample
			if err := errors.Join(json.Unmarshal(usual, &want), json.Unmarshal(again, &meant)); err != nil {
				t.Fatalf("%v: %s", err, again)
			}
			if d := cmp.Diff(want, meant); d != "" {
				t.Fatalf("made: %s", d)
			}
			if err := c.Unmarshal(usual, &read); err != nil {
				t.Fatalf("%v: %s", err, usual)
			}
			if d := cmp.Diff(want, read); d != "" {
				t.Fatalf("read: %s", d)
			}
		})
	})
}

// TestRead: what clients send that is out of the ordinary means the same to each library.
func TestRead(t *testing.T) {
	for name, text := range map[string]string{
		"case":           `{"NAME":"x"}`,
		"twice":          `{"name":"a","name":"b"}`,
		"unknown fields": `{"name":"a","other":{"x":[1,2,{"y":null}]}}`,
		"null":           `{"name":null,"list":null,"text":null}`,
		"spaces":         " \n{ \"name\" :\t\"a\" } \n",
		"escapes":        `{"name":"\u00e9\ud83d\ude00\/\b\n"}`,
		"half a pair":    `{"name":"\ud83d"}`,
		"not UTF-8":      "{\"name\":\"a\xffb\"}",
		"raw":            `{"raw": {"a" : 1 } ,"map":{"x":[ 1 ]}}`,
		"exponent":       `{"ratio":1e3}`,
		"deep":           `{"any":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
		"fraction":       `{"count":1.5}`,
		"large":          `{"count":99999999999999999999}`,
		"wrong kind":     `{"name":5}`,
		"more":           `{"name":"a"} {}`,
		"cut":            `{"name":"a`,
		"comma":          `{"name":"a",}`,
		"control":        "{\"name\":\"a\nb\"}",
		"nothing":        ``,
		"quotes":         `{'name':'a'}`,
		"leading zero":   `{"count":01}`,
		"endless":        `{"any":` + strings.Repeat("[", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, c *Codec) {
				var want, got sample
				bad, err := json.Unmarshal([]byte(text), &want), c.Unmarshal([]byte(text), &got)
				if (bad == nil) != (err == nil) {
					t.Fatalf("%v, want %v", err, bad)
				}
				// go-cmp takes twice as long with each level.
				if bad == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%+v\nwant %+v", got, want)
				}
			})
		})
	}
}

// TestOwn: what was decoded does not change with the buffer that it was in.
func TestOwn(t *testing.T) {
	every(t, func(t *testing.T, c *Codec) {
		text := []byte(`{"name":"a name","raw":{"a":"b"},"any":{"key":"value"},"map":{"one":"1"}}`)
		var v, before sample
		if err := errors.Join(c.Unmarshal(text, &v), json.Unmarshal(text, &before)); err != nil {
			t.Fatal(err)
		}
		for i := range text {
			text[i] = 'x'
		}
		if d := cmp.Diff(before, v); d != "" {
			t.Error(d)
		}
	})
}

func TestFaults(t *testing.T) {
	every(t, func(t *testing.T, c *Codec) {
		if b, err := c.Append([]byte("a"), make(chan int)); err == nil || string(b) != "a" {
			t.Errorf("%q, %v", b, err)
		}
		if b, err := c.Append([]byte("a"), "b"); err != nil || string(b) != `a"b"` {
			t.Errorf("after a fault: %q, %v", b, err)
		}
	})
	if _, err := New("fast"); err == nil || !strings.Contains(err.Error(), "jsoniter, sonic, std") {
		t.Errorf("%v", err)
	}
	if _, err := New(V2); (err == nil) != (newV2() != nil) {
		t.Errorf("%v", err)
	}
}
