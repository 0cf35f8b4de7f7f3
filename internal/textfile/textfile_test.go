package textfile

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestDecode(t *testing.T) {
	const utf16 = "1:1: the text is UTF-16; want UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8"
	for _, tt := range []struct{ name, content, want, fault string }{
		{"empty", "", "", ""},
		{"a mark alone", mark, "", ""},
		{"a mark", mark + "é\n", "é\n", ""},
		{"a mark within", "a\n" + mark + "b", "a\n" + mark + "b", ""},
		{"LF", "a\n\nb\n", "a\n\nb\n", ""},
		{"CR LF", "a\r\n\r\nb\r\n", "a\n\nb\n", ""},
		{"CR", "a\r\rb", "a\n\nb", ""},
		{"all three", "a\rb\r\nc\nd", "a\nb\nc\nd", ""},
		{"UTF-16LE", "\xff\xfea\x00", "", utf16},
		{"UTF-16BE", "\xfe\xff\x00a", "", utf16},
		{"UTF-32LE", "\xff\xfe\x00\x00a\x00\x00\x00", "", strings.ReplaceAll(utf16, "UTF-16", "UTF-32")},
		{"UTF-16 without a mark", "a\x00b\x00", "", "1:2: a NUL byte; want text: take it out, or convert UTF-16 to UTF-8"},
		{"another charset", mark + "one\r\nna\xefve\r\n", "", "2:3: the byte 0xef is not UTF-8; want UTF-8: convert it, for example with iconv -f WINDOWS-1252 -t UTF-8"},
		{"GBK, after CR", "é\ré\xca\xfd", "", "2:2: the byte 0xca is not UTF-8; want UTF-8: convert it, for example with iconv -f WINDOWS-1252 -t UTF-8"},
		{"cut off", "a\xc3", "", "1:2: the byte 0xc3 is not UTF-8; want UTF-8: convert it, for example with iconv -f WINDOWS-1252 -t UTF-8"},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path, 100)
		if fault := faultOf(err, path); string(got) != tt.want || fault != tt.fault {
			t.Errorf("%s: %q, %s; want %q, %s", tt.name, got, fault, tt.want, tt.fault)
		}
		// A scanner sees the same lines and faults, however the file comes.
		s := NewScanner(path, iotest.OneByteReader(strings.NewReader(tt.content)), 100)
		var lines []string
		for s.Scan() {
			lines = append(lines, string(s.Bytes()))
		}
		want := slices.Collect(strings.Lines(tt.want))
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], "\n")
		}
		if tt.want == "" && tt.content == mark {
			want = []string{""}
		}
		if fault := faultOf(s.Err(), path); fault != tt.fault || tt.fault == "" && !slices.Equal(lines, want) {
			t.Errorf("%s: lines %q, %s; want %q, %s", tt.name, lines, fault, want, tt.fault)
		}
	}
	if _, err := Read("textfile_test.go", 100); err == nil || !strings.Contains(err.Error(), "has more than 100 bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
	s := NewScanner("f", strings.NewReader("a\n"+strings.Repeat("b", 101)), 100)
	if !s.Scan() || s.Scan() || s.Err() == nil || s.Err().Error() != "f:2: a line of more than 100 bytes" {
		t.Errorf("a line that is too long: %v", s.Err())
	}
}

func faultOf(err error, path string) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), path+":")
}

// Check keeps what is to be kept as it is, and finds the same faults of UTF-8.
func TestCheck(t *testing.T) {
	for content, want := range map[string]string{
		mark + "a\r\n\x00": "", "a\n\xff": "2:1: the byte 0xff is not UTF-8", "\xff\xfea": "1:1: the text is UTF-16",
	} {
		if err := Check("f", []byte(content)); !strings.HasPrefix(faultOf(err, "f"), want) || (err == nil) != (want == "") {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}

// Text and positions are the same for all line ends.
func TestLineEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[a-zé]{0,5}`)).Draw(t, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		text := strings.Join(lines, "\n")
		got, err := Decode("f", []byte(strings.Join(lines, end)))
		if err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
		_, unified := Decode("f", []byte(text+"\xff"))
		_, ended := Decode("f", []byte(strings.Join(lines, end)+"\xff"))
		if unified.Error() != ended.Error() {
			t.Errorf("%v and %v", unified, ended)
		}
	})
}
