package live

import (
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spf13/pflag"

	"dyno/ui"
)

func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"", "{}\n", `{"begin":{"number":1}}` + "\n", "nonsense\n{\"end\":{}}", strings.Repeat("x", 70_000) + "\n{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := strings.NewReader(string(text))
		events := 0
		follow(iotest.OneByteReader(r), func(ui.Event) { events++ })
		if r.Len() > 0 {
			t.Error("not read to its end")
		}
		if events > strings.Count(string(text), "\n")+1 {
			t.Errorf("%d events", events)
		}
	})
}

func TestRunArgs(t *testing.T) {
	args, err := runArgs(ui.Launch{File: "-x.yaml", Dir: "runs/x", Set: map[string]string{"b": "1,2", "a": "p=q,r=s"}})
	want := []string{"run", "--quiet", "--out", "runs/x", "--set", `"a=p=q,r=s"`, "--set", "b=1,2", "--", "-x.yaml"}
	if err != nil || !reflect.DeepEqual(args, want) {
		t.Errorf("%q, %v", args, err)
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bool("quiet", false, "")
	f.String("out", "", "")
	set := f.StringToString("set", nil, "") // as dyno run has it
	if err := f.Parse(args[1:]); err != nil {
		t.Fatal(err)
	}
	if set := *set; set["a"] != "p=q,r=s" || set["b"] != "1,2" || len(set) != 2 {
		t.Errorf("%q", set)
	}
}

func TestTail(t *testing.T) {
	var x tail
	for _, part := range []string{strings.Repeat("a", maxTail), "é", " end \n"} {
		if n, err := x.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if s := x.String(); !strings.HasSuffix(s, "aé end") || len(s) > maxTail {
		t.Errorf("%d bytes, …%q", len(s), s[len(s)-9:])
	}
}
