package scenario

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"
)

// A pattern finds one group of a regular expression. It runs the program that package
// regexp/syntax compiles, all its threads side by side (Pike's machine: Cox, Regular
// expression matching: the virtual machine approach, 2009), in time proportional to the
// text. Package regexp finds the same, but allocates what it returns.
type pattern struct {
	prog   *syntax.Prog
	prefix []byte // what every match begins with
	atHead bool   // a match begins where the text does
	looks  bool   // the program looks at what is around a position

	begin, end uint32 // the captures of the group's ends; 0 and 1: the whole match
}

// newPattern compiles an expression and says how many groups it has. Group 0 is the first,
// or the whole match if there is none.
func newPattern(text string, group int) (p *pattern, groups int, err error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	groups = re.MaxCap()
	if group == 0 {
		group = min(1, groups)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, groups, err
	}
	prefix, _ := prog.Prefix()
	p = &pattern{
		prog:   prog,
		prefix: []byte(prefix),
		atHead: prog.StartCond()&syntax.EmptyBeginText != 0,
		begin:  uint32(2 * group),
		end:    uint32(2*group + 1),
	}
	for i := range prog.Inst {
		p.looks = p.looks || prog.Inst[i].Op == syntax.InstEmptyWidth
	}
	return p, groups, nil
}

// around returns what the program may ask of the position between two characters; -1
// stands for either end of the text.
func (p *pattern) around(before, behind rune) syntax.EmptyOp {
	if !p.looks {
		return 0
	}
	return syntax.EmptyOpContext(before, behind)
}

// A machine is the memory that finding takes. It is for one goroutine at a time.
type machine struct{ now, next threads }

// A thread is a place in the program, and where the group that it has seen begins and
// ends; -1 where it has seen none.
type thread struct {
	pc         uint32
	begin, end int
}

// threads are those at one position of the text, by priority. Places that were only
// passed through are among them, so that none is visited twice.
type threads struct {
	index []uint32 // in list, by place; means nothing where list does not agree
	list  []thread
}

// grow makes room for the threads of a program.
func (m *machine) grow(p *pattern) {
	if n := len(p.prog.Inst); n > len(m.now.index) {
		m.now = threads{make([]uint32, n), make([]thread, 0, n)}
		m.next = threads{make([]uint32, n), make([]thread, 0, n)}
	}
}

// find returns where the group is in the first match of text. ok is false if there is no
// match, or if the group has no part in it.
func (m *machine) find(p *pattern, text []byte) (begin, end int, ok bool) {
	m.grow(p)
	m.now.list = m.now.list[:0]
	matched := false
	before := rune(-1)
	r, width := runeAt(text, 0)
	for at := 0; ; {
		if len(m.now.list) == 0 {
			if matched || at > 0 && p.atHead {
				break
			}
			if skip := bytes.Index(text[at:], p.prefix); skip < 0 {
				break
			} else if skip > 0 {
				at += skip
				before, _ = utf8.DecodeLastRune(text[:at])
				r, width = runeAt(text, at)
			}
		}
		if !matched {
			t := thread{pc: uint32(p.prog.Start), begin: -1, end: -1}
			if p.begin == 0 {
				t.begin = at
			}
			m.now.add(p, t, at, p.around(before, r))
		}
		behind, behindWidth := runeAt(text, at+width)
		context := p.around(r, behind)
		m.next.list = m.next.list[:0]
		for _, t := range m.now.list {
			in := &p.prog.Inst[t.pc]
			if in.Op == syntax.InstMatch {
				matched, begin, end = true, t.begin, t.end
				if p.begin == 0 {
					end = at
				}
				break // those behind it have less priority
			}
			if width > 0 && takes(in, r) {
				t.pc = in.Out
				m.next.add(p, t, at+width, context)
			}
		}
		if width == 0 {
			break
		}
		m.now, m.next = m.next, m.now
		at += width
		before, r, width = r, behind, behindWidth
	}
	return begin, end, matched && begin >= 0 && end >= 0
}

// runeAt returns the character at a place in the text and how long it is; -1 and 0 at its
// end.
func runeAt(text []byte, at int) (r rune, width int) {
	switch {
	case at >= len(text):
		return -1, 0
	case text[at] < utf8.RuneSelf:
		return rune(text[at]), 1
	}
	return utf8.DecodeRune(text[at:])
}

// takes tells whether an instruction takes a character.
func takes(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRune:
		return in.MatchRune(r)
	case syntax.InstRune1:
		return r == in.Rune[0]
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	default:
		return false
	}
}

// add adds a thread, and those that it splits into before they take a character.
func (s *threads) add(p *pattern, t thread, at int, context syntax.EmptyOp) {
	for {
		if k := s.index[t.pc]; int(k) < len(s.list) && s.list[k].pc == t.pc {
			return
		}
		s.index[t.pc] = uint32(len(s.list))
		s.list = append(s.list, t)
		in := &p.prog.Inst[t.pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			first := t
			first.pc = in.Out
			s.add(p, first, at, context)
			t.pc = in.Arg
		case syntax.InstCapture:
			switch in.Arg {
			case p.begin:
				t.begin, t.end = at, -1
			case p.end:
				t.end = at
			}
			t.pc = in.Out
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^context != 0 {
				return
			}
			t.pc = in.Out
		case syntax.InstNop:
			t.pc = in.Out
		default: // takes a character, matches or fails
			return
		}
	}
}
