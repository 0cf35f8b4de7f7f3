package expr

import (
	"strings"
	"unicode"

	"dyno/internal/nearest"
	"dyno/internal/units"
)

// What a figure measures.
type dimension = units.Dimension

const (
	plain      = units.Plain
	duration   = units.Duration
	size       = units.Size
	rate       = units.Rate
	growthRate = units.Growth
)

// takeUnits blanks the units after numbers, because the parser does not know them. It
// returns them by the position of their number. Nothing moves: positions in the blanked
// text, counted in characters, are those in the text.
func takeUnits(text []rune) (blanked string, found map[int]units.Unit, faults []error) {
	out := append([]rune(nil), text...)
	found = map[int]units.Unit{}
	at := func(i int) rune {
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	for i := 0; i < len(text); {
		switch r := text[i]; {
		case r == '"' || r == '\'' || r == '`':
			i = skipString(text, i)
		case isWord(r) && !isDigit(r):
			for i < len(text) && isWord(text[i]) {
				i++
			}
		case isDigit(r) || r == '.' && isDigit(at(i+1)):
			start := i
			i = skipNumber(text, i)
			from := i
			switch {
			case at(i) == '%':
				i = skipPer(text, i+1)
			case at(i) == '/':
				i = skipPer(text, i)
			default:
				for i < len(text) && isWord(text[i]) {
					i++
				}
			}
			if i == from {
				continue
			}
			name := string(text[from:i])
			u, ok := units.Named(name)
			if !ok {
				faults = append(faults, &Error{Column: from + 1, Message: "unknown unit " + quote(name) + meant(name, units.Names())})
				continue
			}
			found[start] = u
			for j := from; j < i; j++ {
				out[j] = ' '
			}
		default:
			i++
		}
	}
	return string(out), found, faults
}

// skipString returns the position after the string that begins at i. For a string that is
// not closed, that is the end of the text.
func skipString(text []rune, i int) int {
	mark := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && mark != '`':
			i++
		case text[i] == mark:
			return i + 1
		}
	}
	return len(text)
}

// skipNumber returns the position after the decimal number that begins at i.
func skipNumber(text []rune, i int) int {
	digits := func() {
		for i < len(text) && (isDigit(text[i]) || text[i] == '_') {
			i++
		}
	}
	digits()
	if i < len(text) && text[i] == '.' {
		i++
		digits()
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if j < len(text) && isDigit(text[j]) {
			i = j
			digits()
		}
	}
	return i
}

// skipPer returns the position after a /s, /min or /h that begins at i, or i
// when there is none. Min may also be the function of that name.
func skipPer(text []rune, i int) int {
	if i >= len(text) || text[i] != '/' {
		return i
	}
	end := i + 1
	for end < len(text) && isWord(text[end]) {
		end++
	}
	switch string(text[i+1 : end]) {
	case "s", "h":
		return end
	case "min":
		if next := strings.TrimLeftFunc(string(text[end:]), unicode.IsSpace); !strings.HasPrefix(next, "(") {
			return end
		}
	}
	return i
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isWord(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// meant proposes the nearest of the names, or lists them all when none is near.
func meant(name string, names []string) string {
	if best, found := nearest.Find(name, names); found {
		return "; did you mean " + best + "?"
	}
	return "; want one of " + strings.Join(names, ", ")
}
