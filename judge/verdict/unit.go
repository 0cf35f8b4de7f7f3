package verdict

import (
	"strings"
	"unicode"
)

// A dimension is what a figure measures. Figures of different dimensions are
// neither compared nor added.
type dimension uint8

const (
	plain      dimension = iota // a count, a share, a ratio
	duration                    // seconds
	size                        // bytes
	rate                        // per second
	growthRate                  // a share of itself per second
)

func (d dimension) String() string {
	return [...]string{"a plain number", "a time", "a size", "a rate", "a slope"}[d]
}

// product returns the dimension of a product; false, and that of the first, if the
// product is no figure.
func product(a, b dimension) (dimension, bool) {
	switch {
	case a == plain:
		return b, true
	case b == plain:
		return a, true
	case a == duration && b.perTime() || a.perTime() && b == duration:
		return plain, true
	}
	return a, false
}

// quotient does the same for a over b.
func quotient(a, b dimension) (dimension, bool) {
	switch {
	case a == b || a.perTime() && b.perTime():
		return plain, true
	case b == plain:
		return a, true
	case a == plain && b == duration:
		return rate, true
	case a == plain && b.perTime():
		return duration, true
	}
	return a, false
}

// perTime tells whether a dimension is per time.
func (d dimension) perTime() bool { return d == rate || d == growthRate }

// A unit is a word that may follow a number directly.
//
// Its factor is kept as a fraction: one division rounds as reading the decimal number
// would, so 57ms is exactly 0.057s, which multiplying by 0.001 can miss.
type unit struct {
	name      string
	times, by float64 // what to multiply with and divide by, for seconds, bytes, per second or ones
	dim       dimension
}

func (u unit) of(v float64) float64 { return v * u.times / u.by }

func units() []unit {
	return []unit{
		{"ns", 1, 1e9, duration},
		{"us", 1, 1e6, duration},
		{"µs", 1, 1e6, duration}, // micro sign
		{"μs", 1, 1e6, duration}, // Greek letter
		{"ms", 1, 1e3, duration},
		{"s", 1, 1, duration},
		{"m", 60, 1, duration},
		{"min", 60, 1, duration},
		{"h", 3600, 1, duration},
		{"B", 1, 1, size},
		{"KB", 1e3, 1, size},
		{"MB", 1e6, 1, size},
		{"GB", 1e9, 1, size},
		{"KiB", 1 << 10, 1, size},
		{"MiB", 1 << 20, 1, size},
		{"GiB", 1 << 30, 1, size},
		{"%", 1, 100, plain},
		{"/s", 1, 1, rate},
		{"/min", 1, 60, rate},
		{"/h", 1, 3600, rate},
		{"%/s", 1, 100, rate},
		{"%/min", 1, 100 * 60, rate},
		{"%/h", 1, 100 * 3600, rate},
	}
}

// takeUnits blanks the units behind numbers, which the parser does not know,
// and returns them by the position of their number. Nothing moves: positions
// in the blanked text, counted in characters, are those in the text.
func takeUnits(text []rune) (blanked string, found map[int]unit, faults []error) {
	out := append([]rune(nil), text...)
	found = map[int]unit{}
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
			u, ok := unitNamed(name)
			if !ok {
				faults = append(faults, &Error{Column: from + 1, Message: "unknown unit " + quote(name) + meant(name, unitNames())})
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

// skipString returns the position behind the string that begins at i, or the
// end of the text when it is not closed.
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

// skipNumber returns the position behind the decimal number that begins at i.
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

// skipPer returns the position behind a /s, /min or /h that begins at i, or i
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

func unitNamed(name string) (unit, bool) {
	for _, u := range units() {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}

func unitNames() []string {
	var names []string
	for _, u := range units() {
		if u.name != "μs" { // it looks like the other one
			names = append(names, u.name)
		}
	}
	return names
}

// meant proposes the nearest of the names, or lists them all when none is near.
func meant(name string, names []string) string {
	best, distance := "", 1+(len([]rune(name))+1)/3
	for _, n := range names {
		d := edits(strings.ToLower(name), strings.ToLower(n))
		if d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return "; want one of " + strings.Join(names, ", ")
	}
	return "; did you mean " + best + "?"
}

// edits is the Levenshtein distance: how many characters must be inserted,
// deleted or replaced to make b of a.
func edits(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			replace := diagonal
			if r != s {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(to)]
}
