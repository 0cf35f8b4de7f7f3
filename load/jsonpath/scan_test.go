package jsonpath

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func mustCompile(tb testing.TB, text string) *Path {
	tb.Helper()
	p, err := Compile(text)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestFind(t *testing.T) {
	const doc = ` {"token":"abc", "n":-1.5e3, "list":[{"id":1},{"id":"z"},[]], "":0, "deep":{"a":{"b":[1,[2,3]]}},
		"esc\u0061ped":"line\nbreak \ud83d\ude00", "token":"second", "no":null, "yes":true, "key\\":{"x":{}}} `
	for _, tt := range []struct {
		path   string
		want   string
		result Result
	}{
		{"$", strings.TrimSpace(doc), Found},
		{"$.token", `"abc"`, Found},
		{"$.n", "-1.5e3", Found},
		{"$.list[1].id", `"z"`, Found},
		{"$.list[-3].id", "1", Found},
		{"$.list[2]", "[]", Found},
		{"$.list[-1]", "[]", Found},
		{"$['']", "0", Found},
		{"$.deep.a.b[1][0]", "2", Found},
		{"$.deep.a.b[-1][-1]", "3", Found},
		{"$.deep.a", `{"b":[1,[2,3]]}`, Found},
		{"$.escaped", `"line\nbreak \ud83d\ude00"`, Found},
		{"$.no", "null", Found},
		{"$.yes", "true", Found},
		{`$['key\\'].x`, "{}", Found},
		{"$.nothing", "", Missing},
		{"$.token.x", "", Missing},
		{"$.token[0]", "", Missing},
		{"$[0]", "", Missing},
		{"$.list.id", "", Missing},
		{"$.list[3]", "", Missing},
		{"$.list[-4]", "", Missing},
		{"$.list[2][0]", "", Missing},
		{"$.list[2][-1]", "", Missing},
		{"$['key\\\\'].x.y", "", Missing},
		{"$.no.x", "", Missing},
	} {
		got, result := mustCompile(t, tt.path).Find([]byte(doc))
		if string(got) != tt.want || result != tt.result {
			t.Errorf("%s: %q, %v; want %q, %v", tt.path, got, result, tt.want, tt.result)
		}
	}
}

func TestFindMalformed(t *testing.T) {
	for _, tt := range []struct {
		path, doc string
		result    Result
	}{
		{"$.a", "", Malformed},
		{"$.a", `"x`, Malformed},
		{"$.a", `{"a"}`, Malformed},
		{"$.a", `{"a":}`, Malformed},
		{"$.a", `{"b":1 "a":2}`, Malformed},
		{"$.a", `{"b":[1}`, Malformed},
		{"$[1]", `[1;2]`, Malformed},
		{"$[1]", `[1,]`, Malformed},
		{"$[-1]", `[1,`, Malformed},
		{"$.a[0]", `{"a":tru}`, Malformed},
		{"$.a", `{"a":1`, Found}, // what follows is not read
		{"$[0]", `[1,`, Found},
	} {
		if got, result := mustCompile(t, tt.path).Find([]byte(tt.doc)); result != tt.result {
			t.Errorf("%s of %s: %q, %v; want %v", tt.path, tt.doc, got, result, tt.result)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		doc    string
		offset int
		want   string
	}{
		{`{"a":[1,2.5,-0,1e9,"x\u00e9\"",true,false,null,{},[]]}`, 0, ""},
		{"", 0, "ends too early"},
		{`{"a":1`, 6, "ends too early"},
		{`{"a`, 3, "ends too early"},
		{`{"a":1}}`, 7, "something follows"},
		{`1 2`, 2, "something follows"},
		{`01`, 1, "something follows"},
		{`-x`, 1, "want a digit"},
		{`1.`, 2, "ends too early"},
		{`1e+ `, 3, "want a digit"},
		{`{'a':1}`, 1, "want a name in double quotes"},
		{`{"a" 1}`, 5, "want : after a name"},
		{`[1 2]`, 3, "want , or ]"},
		{`{"a":1 2}`, 7, "want , or }"},
		{`{"a":[1}`, 7, "want , or ]"},
		{`[nul]`, 1, "want true, false, null"},
		{`[a]`, 1, "want a value"},
		{`"a\x"`, 2, "want an escape"},
		{"\"a\tb\"", 2, "a control character"},
		{"[1,\"a\n\"]", 3, "a string that its line does not end"},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), 0, ""},
		{strings.Repeat("[", MaxDepth+1), MaxDepth, "nested too deep"},
	} {
		offset, problem := Check([]byte(tt.doc))
		if offset != tt.offset || (problem == "") != (tt.want == "") || !strings.Contains(problem, tt.want) {
			t.Errorf("%.40s: %q at %d, want %q at %d", tt.doc, problem, offset, tt.want, tt.offset)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		doc  string
		want []string
	}{
		{` {"a":{"x":1},"b c":[1],"\u0061":2,"":0}`, []string{"a", "b c", ""}},
		{"{}", nil},
		{"[1]", nil},
		{"", nil},
		{`{"a":1`, nil},
	} {
		if got := Names([]byte(tt.doc)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.doc, got, tt.want)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{`"abc"`, "abc"},
		{`""`, ""},
		{`"\"\\\/\b\f\n\r\t\u00e9"`, "\"\\/\b\f\n\r\té"},
		{`"a\ud83d\ude00b"`, "a😀b"},
		{`"\ud83d"`, "\uFFFD"},
		{`"\ud83dx\ude00"`, "\uFFFDx\uFFFD"},
		{`"\ud83d\u0041"`, "\uFFFDA"},
		{"12.50", "12.50"},
		{"true", "true"},
		{`{"a": "\n"}`, `{"a": "\n"}`},
		{`"`, `"`},
		{`"\q"`, "\uFFFDq"},
	} {
		if got := string(AppendText([]byte(">"), []byte(tt.value))); got != ">"+tt.want {
			t.Errorf("%s: %q, want %q", tt.value, got, tt.want)
		}
	}
}

// reference finds a value with encoding/json, the first of members of one name.
func reference(t interface{ Fatal(...any) }, doc []byte, steps []step) (json.RawMessage, Result) {
	value := json.RawMessage(bytes.TrimSpace(doc))
	for _, st := range steps {
		d := json.NewDecoder(bytes.NewReader(value))
		open, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		want := json.Delim('[')
		if st.member {
			want = '{'
		}
		if open != want {
			return nil, Missing
		}
		var values []json.RawMessage
		found := -1
		for d.More() {
			if st.member {
				key, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				if key == st.name && found < 0 {
					found = len(values)
				}
			}
			var v json.RawMessage
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		if !st.member {
			if found = st.index; found < 0 {
				found += len(values)
			}
		}
		if found < 0 || found >= len(values) {
			return nil, Missing
		}
		value = values[found]
	}
	return value, Found
}

// drawValue draws a JSON document.
func drawValue(t *rapid.T, depth int) string {
	name := func() string {
		return rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `""`, `"é"`, `"a b"`, `"\\"`, `"\""`}).Draw(t, "name")
	}
	blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank") }
	kinds := 2
	if depth > 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"0", "-1", "2.5e-3", "true", "false", "null"}).Draw(t, "literal")
	case 1:
		b, err := json.Marshal(rapid.String().Draw(t, "string"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	case 2:
		var b strings.Builder
		b.WriteString("[" + blank())
		for i := range rapid.IntRange(0, 3).Draw(t, "elements") {
			if i > 0 {
				b.WriteString("," + blank())
			}
			b.WriteString(drawValue(t, depth-1) + blank())
		}
		return b.String() + "]"
	default:
		var b strings.Builder
		b.WriteString("{" + blank())
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			if i > 0 {
				b.WriteString("," + blank())
			}
			b.WriteString(name() + blank() + ":" + blank() + drawValue(t, depth-1) + blank())
		}
		return b.String() + "}"
	}
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(" " + drawValue(t, 4) + "\n")
		path := "$" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			".a", ".b", "['']", ".é", "['a b']", `['\\']`, `['"']`, "[0]", "[1]", "[-1]", "[-2]",
		}), 0, 4).Draw(t, "path"), "")
		agree(t, doc, path)
	})
}

// agree holds Find and AppendText to encoding/json on a valid document.
func agree(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, doc []byte, text string) {
	p, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	want, wantResult := reference(t, doc, p.steps)
	got, result := p.Find(doc)
	if result != wantResult || !bytes.Equal(got, want) {
		t.Fatalf("%s of %q: %q, %v; want %q, %v", text, doc, got, result, want, wantResult)
	}
	if result == Found && got[0] == '"' {
		var s string
		if err := json.Unmarshal(want, &s); err != nil {
			t.Fatal(err)
		}
		if got := AppendText(nil, got); string(got) != s {
			t.Fatalf("%q says %q, want %q", want, got, s)
		}
	}
}

// FuzzFind: on valid documents Find agrees with encoding/json; on others it neither
// panics nor returns what is no value.
func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\u00e9"}]}`), "$.a[1].b")
	f.Add([]byte(`{"a":[1,{"b":"\u00e9"}]}`), "$.a[-1]['b']")
	f.Add([]byte(` [ "x" , null ] `), "$[1]")
	f.Add([]byte(`{"a":1,"a":2}`), "$.a")
	f.Add([]byte(`{"\ud800":1}`), `$["\ufffd"]`)
	f.Add([]byte(`{"a":[}`), "$.a")
	f.Fuzz(func(t *testing.T, doc []byte, text string) {
		p, err := Compile(text)
		if err != nil {
			return
		}
		_, problem := Check(doc)
		if valid := json.Valid(doc); valid != (problem == "") && problem != "nested too deep" {
			t.Fatalf("%q: valid %v, but %q", doc, valid, problem)
		}
		got, result := p.Find(doc)
		if result == Found && !json.Valid(got) {
			t.Fatalf("%s of %q: %q", text, doc, got)
		}
		if problem == "" && utf8.Valid(doc) {
			agree(t, doc, text)
		}
		AppendText(nil, doc)
		Names(doc)
	})
}
