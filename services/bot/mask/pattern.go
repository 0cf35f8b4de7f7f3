package mask

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// A pattern is an automaton. A match is as long as possible, and neither preceded nor followed by a letter, digit or
// underscore. It is ASCII without quotes and backslashes: its replacement leaves JSON within a text valid.
type pattern struct {
	expression string
	most       int                 // bounds a match, in characters, and so the text that is held back
	needs      string              // a text without any of these has no match
	number     bool                // it is no part of a longer number, identifier or path: more may not precede or follow
	check      func(s string) bool // of what matches; nil accepts all
	next       [][128]uint16       // by state and character; state 0 has no match
	accepts    []bool              // by state
}

const (
	begin      = 1    // the state at the beginning of a match
	maxPattern = 256  // the characters of a match of a rule's own pattern
	maxStates  = 1024 // of an automaton: a quarter of a MiB
)

// kinds are the patterns that a rule may name, without their automata.
var kinds = map[string]pattern{
	// RFC 5321 bounds an address by 254 characters. Names of images at twice their size (icon@2x.png) are none.
	"email": {most: 254, needs: "@", check: func(s string) bool { return !strings.Contains(s, "@2x.") && !strings.Contains(s, "@3x.") },
		expression: `\w[\w.%+-]*@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}`},
	// 14 to 19 digits of the issuers in use: other digits begin timestamps and most identifiers.
	"card": {most: 23, needs: "0123456789", number: true, check: luhn,
		expression: `(?:2[2-7]|35|[4-6]\d)\d\d(?:[ -]?\d{4}){3}(?:[ -]?\d{1,3})?|3[47]\d\d[ -]?\d{6}[ -]?\d{5}|3[0689]\d\d[ -]?\d{6}[ -]?\d{4}`},
	// Numbers with as many zeros at their end are amounts.
	"phone": {most: 45, needs: "0123456789", number: true, check: func(s string) bool { return !strings.HasSuffix(s, "000000") }, expression: strings.Join(phones, "|")},
	"iban":  {most: 42, needs: "0123456789", number: true, check: iban, expression: `[A-Z]{2}\d\d(?: ?[A-Z0-9]){11,30}`},
}

// phones are international numbers (E.164), and national ones of a clear form. Others look like any number.
var phones = []string{
	`\+[1-9](?:[ ()/-]{0,2}\d){7,14}`,
	`(?:1[ .-])?(?:\([2-9]\d\d\) ?\d{3}-|[2-9]\d\d-\d{3}-|[2-9]\d\d\.\d{3}\.)\d{4}`,         // North America
	`0[1-9]\d{1,4}(?: ?[/-] ?| )\d{6,8}`,                                                    // an area, and the rest: Germany, China, Great Britain, Italy
	`\(0[1-9]\d{0,3}\)[ -]?(?:\d{6,8}|\d{3,4}[ -]\d{3,4}|\d{2,3}(?: \d{2,3}){1,2} \d\d)`,    // an area in brackets
	`0[1-9]\d?[ -]\d{4}[ -]\d{4}|0[1-9]\d{1,2}[ -]\d{3}[ -]\d{3,4}|0[1-9]\d{3} \d{3} \d{3}`, // Great Britain, Japan
	`0[1-9]\d\d-\d\d-\d{4}|0[1-9]\d{1,3}[ /-]\d{2,3}(?: \d{2,3}){1,2} \d\d`,                 // Japan; Germany
	`0[1-9](?:(?: \d\d){4}|(?:\.\d\d){4}|(?:-\d\d){4})`,                                     // France
	`1[3-9]\d(?:\d{8}|[ -]\d{4}[ -]\d{4})|0[6-9]\d{9}|0[6-9]\d{4} \d{5}|3[2-9]\d[ -]\d{7}`,  // mobile phones in China, in India and Great Britain, in Italy
	`\([1-9]\d\) ?(?:9\d{4}|[3-5]\d{3}|2[1-9]\d\d)-\d{4}|[1-9]\d 9\d{4}-\d{4}`,              // Brazil
}

// luhn reports whether the digits of a card's number have the right check digit (ISO/IEC 7812).
func luhn(s string) bool {
	s = strings.NewReplacer(" ", "", "-", "").Replace(s)
	sum := 0
	for i := range s {
		d := int(s[i]-'0') * (1 + (len(s)-1-i)%2)
		sum += d/10 + d%10
	}
	return sum%10 == 0
}

// ibans are the lengths of account numbers by country (ISO 13616, the registry's version 99).
const ibans = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 " +
	"IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// iban reports whether an account number has its country's length and the right check digits.
func iban(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	rest := 0
	for _, c := range s[4:] + s[:4] {
		if c <= '9' {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1 && strings.Contains(ibans, s[:2]+strconv.Itoa(len(s)))
}

// compile makes the automaton, whose states are sets of instructions.
func (p *pattern) compile() error {
	re, err := syntax.Parse(p.expression, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(prog.Inst, func(i syntax.Inst) bool { return i.Op == syntax.InstEmptyWidth }) {
		return errors.New("^, $ and \\b are not possible: matches begin and end where words do in any case")
	}
	var sets [][]uint32
	known := map[string]uint16{}
	// state returns the state of a set.
	state := func(set []uint32) uint16 {
		slices.Sort(set)
		set = slices.Compact(set)
		name := fmt.Sprint(set)
		n, ok := known[name]
		if !ok {
			n = uint16(len(sets)) //nolint:gosec // bounded
			known[name], sets = n, append(sets, set)
			p.accepts = append(p.accepts, slices.ContainsFunc(set, func(pc uint32) bool { return prog.Inst[pc].Op == syntax.InstMatch }))
		}
		return n
	}
	state(nil)
	state(reach(prog, nil, uint32(prog.Start))) //nolint:gosec // not negative
	for n := 0; n < len(sets); n++ {
		if len(sets) > maxStates {
			return errors.New("too complicated: say the beginning and the end of a match more exactly")
		}
		var next [128]uint16
		for c := byte(' '); c < 0x7f; c++ {
			var set []uint32
			for _, pc := range sets[n] {
				if i := &prog.Inst[pc]; i.Op != syntax.InstMatch && c != '"' && c != '\\' && i.MatchRune(rune(c)) {
					set = reach(prog, set, i.Out)
				}
			}
			if len(set) > 0 {
				next[c] = state(set)
			}
		}
		p.next = append(p.next, next)
	}
	if p.accepts[begin] || !slices.Contains(p.accepts, true) {
		return errors.New("must match some text of ASCII without quotes and backslashes, and not the empty one")
	}
	if p.most > 0 {
		return nil // a kind
	}
	for c, to := range p.next[begin] {
		if to != 0 {
			p.needs += string(rune(c))
		}
	}
	for states := []uint16{begin}; len(states) > 0; p.most++ {
		if p.most > maxPattern {
			return fmt.Errorf("a match may have more than %d characters, for which a stream would be held back: give a most, such as {1,20} in place of + and *", maxPattern)
		}
		var after []uint16
		for _, n := range states {
			after = append(after, p.next[n][:]...)
		}
		slices.Sort(after)
		states = slices.DeleteFunc(slices.Compact(after), func(n uint16) bool { return n == 0 })
	}
	return nil
}

// reach appends the instructions that an instruction leads to without a character, or itself.
func reach(prog *syntax.Prog, set []uint32, pc uint32) []uint32 {
	switch i := &prog.Inst[pc]; i.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return reach(prog, reach(prog, set, i.Out), i.Arg)
	case syntax.InstCapture, syntax.InstNop:
		return reach(prog, set, i.Out)
	case syntax.InstFail:
		return set
	}
	return append(set, pc)
}

// read returns the first character of a text and its length. ok is false if more text decides that; if nothing
// follows, the end is a character of length 0.
func read(text []byte, final bool) (c byte, n int, ok bool) {
	if len(text) == 0 {
		return 0, 0, final
	}
	if text[0] != '\\' {
		return text[0], 1, true
	}
	if c, n = character(text); n == 0 {
		return '\\', 1, final // no escape, if nothing follows
	}
	return c, n, true
}

// decoded returns a text without escapes.
func decoded(text []byte) string {
	var b []byte
	for len(text) > 0 {
		c, n, _ := read(text, true)
		b, text = append(b, c), text[n:]
	}
	return string(b)
}

// match reports whether text begins with a match, and its length.
func (p *pattern) match(text []byte, before byte, final bool) (d decision, length int) {
	if p.number && (before == '-' || before == '.' || before == '/') {
		return differs, 0
	}
	state := uint16(begin)
	for i, n := 0, 0; ; n++ {
		c, size, ok := read(text[i:], final)
		if !ok {
			return undecided, 0
		}
		if p.accepts[state] && !word(c) {
			after := byte(0)
			if p.number && (c == '-' || c == '.') {
				if after, _, ok = read(text[i+size:], final); !ok {
					return undecided, 0
				}
			}
			if !word(after) && (p.check == nil || p.check(decoded(text[:i]))) {
				d, length = matches, i
			}
		}
		if n == p.most || size == 0 || c >= 0x80 {
			return d, length
		}
		if state = p.next[state][c]; state == 0 {
			return d, length
		}
		i += size
	}
}
