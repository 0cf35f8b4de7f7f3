package imports

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// A test plan means the same in each charset that its first line can name, with a byte order mark or without.
func TestCharsetsOfPlans(t *testing.T) {
	src, err := os.ReadFile("testdata/jmeter/latin.jmx")
	if err != nil {
		t.Fatal(err)
	}
	text, err := charmap.ISO8859_1.NewDecoder().String(string(src))
	if err != nil {
		t.Fatal(err)
	}
	utf8 := strings.Replace(text, "ISO-8859-1", "UTF-8", 1)
	wide := strings.Replace(text, "ISO-8859-1", "UTF-16", 1)
	encoded := map[string]string{"latin": string(src), "utf-8": utf8, "utf-8 with a mark": "\ufeff" + utf8}
	for name, order := range map[string]unicode.Endianness{"utf-16le": unicode.LittleEndian, "utf-16be": unicode.BigEndian} {
		if encoded[name], err = unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(wide); err != nil {
			t.Fatal(err)
		}
	}
	for name, plan := range encoded {
		file := filepath.Join(t.TempDir(), "plan.jmx")
		if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(Source{Format: "jmeter", File: file})
		if err != nil || !strings.Contains(string(r.Text), `body: "né & < \r\nx"`) {
			t.Errorf("%s: %v\n%+v", name, err, r)
		}
	}
}
