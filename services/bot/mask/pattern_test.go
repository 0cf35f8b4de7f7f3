package mask

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// all has every kind, and a pattern of its own.
func all(t testing.TB) *Masker {
	t.Helper()
	m, err := New([]Rule{{Kind: "secrets"}, {Kind: "email"}, {Kind: "card"}, {Kind: "iban"}, {Kind: "phone"}, {Name: "ticket", Pattern: `TCK-[0-9]{6}|(?i)case \d{1,3}`}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestKinds(t *testing.T) {
	m := all(t)
	for text, want := range map[string]string{
		"Mail ada.lovelace+x@mail.example.co.uk.":         "Mail [email].",
		"<ada@example.com>,bob@example.org":               "<[email]>,[email]",
		"-ada@example.com":                                "-[email]",
		`ada\u0040example.com`:                            "[email]",
		`{\"to\":\"ada@example.com\"}`:                    `{\"to\":\"[email]\"}`,
		"ada@例子.com":                                      "ada@例子.com",
		"电邮ada@example.com。":                              "电邮[email]。",
		"4111 1111 1111 1111":                             "[card]",
		"pay 4111-1111-1111-1111!":                        "pay [card]!",
		"card=4111111111111111.":                          "card=[card].",
		"5555555555554444, 378282246310005":               "[card], [card]",
		"3782 822463 10005":                               "[card]",
		"2223003122003222 6011111111111117":               "[card] [card]",
		"30569309025904 3530111333300000":                 "[card] [card]",
		"call +1 (415) 555-2671 or +49 (0)30 12345678":    "call [phone] or [phone]",
		"tel:+8613812345678":                              "tel:[phone]",
		"(415) 555-2671, 1-415-555-2671, 415.555.2671.":   "[phone], [phone], [phone].",
		"IBAN:DE89 3704 0044 0532 0130 00 IS MINE":        "IBAN:[iban] IS MINE",
		"GB82WEST12345698765432":                          "[iban]",
		"Tel. 030 12345678, 030/12345678, (030)12345678.": "Tel. [phone], [phone], [phone].",
		"0171-1234567; 0171/123 45 67; 089 / 1234567":     "[phone]; [phone]; [phone]",
		"(0171) 123 45 67 or 089 123 456 78!":             "[phone] or [phone]!",
		"020 7946 0958 (020) 7946 0958":                   "[phone] [phone]",
		"01632 960123, 01632 960 123, 07700 900123":       "[phone], [phone], [phone]",
		"0161 496 0123, 07700900123":                      "[phone], [phone]",
		"01 23 45 67 89, 01.23.45.67.89, 06-12-34-56-78.": "[phone], [phone], [phone].",
		"06 1234 5678, 02 1234 5678, 011 1234567":         "[phone], [phone], [phone]",
		"347 1234567, 347-1234567":                        "[phone], [phone]",
		"电话13812345678,138 1234 5678,138-1234-5678":       "电话[phone],[phone],[phone]",
		"010-12345678, 0755-12345678, (010) 12345678":     "[phone], [phone], [phone]",
		"09876543210, 098765 43210, +91 98765 43210":      "[phone], [phone], [phone]",
		"(11) 91234-5678, (11)3456-7890, 11 91234-5678":   "[phone], [phone], [phone]",
		"03-1234-5678, 090-1234-5678, 0120-123-456":       "[phone], [phone], [phone]",
		"0967-12-3456":                                    "[phone]",
		"TCK-123456-a CASE 12.":                           "[ticket]-a [ticket].",
		key + " " + "ada@example.com":                     "[api-key] [email]",
	} {
		if got, n := m.Text(text); got != want || n != strings.Count(want, "[") {
			t.Errorf("%q: %q (%d), want %q", text, got, n, want)
		}
	}
}

// TestLookAlikes: what looks like one of the kinds stays.
func TestLookAlikes(t *testing.T) {
	m := all(t)
	for _, text := range []string{
		"chatcmpl-4111111111111111", "call_4111111111111111", "toolu_01A09q90qw90lq917835lq9", "resp_5555555555554444", "req/4111111111111111",
		"41111111-1111-1111-8111-111111111111", "550e8400-e29b-41d4-a716-446655440000", "550e8400-4111-1111-1111-111111111111",
		"1700000000", "1700000000000", "1700000000000000", "1700000000000000000", "2024-01-01T00:00:00.123456789+08:00", "20240101120000",
		"0.4111111111111111", "4111111111111111.5", "-0.5555555555554444", "+1.23456789012", "1e+12345678", "+12345678.5", "3.14159265358979",
		"4111111111111112", "4111 1111 1111 1112", "411111111111111", "9999999999999999",
		"d41d8cd98f00b204e9800998ecf8427e", "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"DE89 3704 0044 0532 0130 01", "DE8937040044053201300", "ZZ89370400440532013000", "GB82WEST123456987654321",
		"192.168.100.200", "10.0.0.1:8080", "@@ -12,7 +1234,8 @@", "1+2345678", "200 300 4000", "415-5552671",
		"01-02-2024", "01/02/2024 10:30", "01.02.2024", "2024-01-02 03:04:05", "02 03 2024", "01 2024", "Q1 2023/2024", "2019-2024", "09:30-10:30", "08:15:30.123456", "20:00 0800",
		"0.99", "012.50", "1 234 567,89", "1,234,567.89", "15000000000", "13 500 000", "0,0123 456", "$0.0123", "350 200 4000", "3 1234567",
		"v0.12.345", "1.2.3-04", "0.10.0-rc.1", "01.02.03", "10.15.7 (19H2)", "go1.25.0",
		"012/2024", "012/2024 10", "(12) 2001-2024", "(1) 91234-5678", "0001-12345678", "00123456789", "0123456789", "0123-4567-8901", "INV-0123-456789", "A013812345678", "138123456789", "1381234567", "12345678901", "978-0-306-40615-7", "0-306-40615-2",
		"010.012.034.056", "172.16.254.1:0800", "2001:0db8:0123:4567:89ab:cdef:0123:4567", "fe80::0123", "01-23-45-67-89-ab", "01:23:45:67:89:ab",
		"48.8566, 02.3522", "N 052 31 12.3", "0.13812345678", "13812345678.5", "lat=01.234567 lon=-013.4567",
		"0123456789abcdef", "0a1b2c3d 0123 4567 89ab", "MDEyMzQ1Njc4OTAxMjM0NTY3ODk=", "13812345678abcdef", "deadbeef-0123-4567-8901-123456789012",
		"icon@2x.png", "@app.route", "a@b", "react@18.2.0", "x @ example.com", "TCK-12345", "TCK-1234567", "XTCK-123456", "case", "CASE 1234",
		";base64," + "AAAA/4111111111111111/ada", strings.Repeat("A", longRun) + "+4111111111111111",
	} {
		if got, n := m.Text(text); n != 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestPatternsInPieces: wherever a text is cut, the result is that of the whole, and at most a match is held back.
func TestPatternsInPieces(t *testing.T) {
	m := all(t)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"ada", "@", "a.b", "example.com", ".", "-", " ", "_", "4111", "1111", "4111 1111-1111 1111", "5555555555554444", "+1", "(415) ", "555-2671",
			"DE89", "370400440532013000", "TCK-", "123456", "case 1", "中", `"`, `\`, `\u004`, `\u0040`, `\\u0034`, `\n`, ";base64,", "/", "sk-", strings.Repeat("x", 30)}), 0, 40).Draw(t, "text"), "")
		want, n := m.Text(text)
		s := m.Stream()
		var got []byte
		for rest := text; rest != ""; {
			cut := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			got = s.Write(got, rest[:cut])
			rest = rest[cut:]
			if len(s.held) > (maxPattern+2)*(maxSlashes+5) {
				t.Fatalf("%q: holds back %q", text, s.held)
			}
		}
		if got = s.Close(got); string(got) != want || s.Found() != n {
			t.Fatalf("%q: %q (%d) in pieces, %q (%d) at once", text, got, s.Found(), want, n)
		}
	})
}

// TestOnlyWhatMayMatchIsHeld: what precedes the possible beginning of a match is passed at once.
func TestOnlyWhatMayMatchIsHeld(t *testing.T) {
	s := all(t).Stream()
	for _, step := range []struct{ piece, out string }{
		{"Write to ada", "Write to "}, {" or +1 415", "ada or "}, {" x", "+1 415 "}, {" (TCK-12", "x ("}, {"3456", ""}, {")", "[ticket])"}, {" bob@example.com", " "},
	} {
		if got := string(s.Write(nil, step.piece)); got != step.out {
			t.Errorf("%q: %q, want %q", step.piece, got, step.out)
		}
	}
	if got := string(s.Close(nil)); got != "[email]" {
		t.Errorf("at the end: %q", got)
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"a+":                   "a match may have more than 256 characters, for which a stream would be held back: give a most",
		"(?:ab{2,})c":          "more than 256 characters",
		`a\b`:                  "^, $ and \\b are not possible",
		"^a":                   "are not possible",
		"[0-9":                 "missing closing ]",
		"a?":                   "not the empty one",
		"工单[0-9]":              "must match some text of ASCII",
		"a{200}b{200}":         "more than 256 characters",
		"(?:a|[a-f]b?){1,100}": "too complicated",
	} {
		if _, err := New([]Rule{{Name: "x", Pattern: pattern}}); err == nil || !strings.Contains(err.Error(), `rule 1, "x": pattern`) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
	for want, r := range map[string]Rule{
		`rule 1, "mail": prefix`:       {Kind: "mail"},
		`rule 1, "email": only one of`: {Kind: "email", Pattern: "a"},
		`rule 1, "x": only one of`:     {Name: "x", Pattern: "a", Prefix: "b", Class: "c", Min: 1},
	} {
		if _, err := New([]Rule{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// BenchmarkNothing masks a text without secrets.
func BenchmarkNothing(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over 13 lazy dogs, and nothing else happens in this text. ", 100)
	for name, m := range map[string]*Masker{"secrets": defaults(b), "all": all(b)} {
		b.Run(name+"/whole", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Text(text)
			}
		})
		b.Run(name+"/stream", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var out []byte
			for b.Loop() {
				s := m.Stream()
				for i := 0; i < len(text); i += 6 {
					out = s.Write(out[:0], text[i:i+6])
				}
				s.Close(out[:0])
			}
		})
	}
}
