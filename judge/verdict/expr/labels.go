package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A stepLabel is the {step=NAME} after a metric, and where it begins in the text.
type stepLabel struct {
	name string
	at   int
}

// takeSteps takes the points out of quantiles, and blanks the labels after metrics, which the parser does not know. It returns
// them by the position of their metric. Positions in the blanked text are those in the text.
func takeSteps(text []rune) (blanked []rune, found map[int]stepLabel, faults []error) {
	blanked, found = slices.Clone(text), map[int]stepLabel{}
	for i := 0; i < len(text); {
		switch r := text[i]; r {
		case '"', '\'', '`':
			i = skipString(text, i)
		case '{':
			name, end, problem := readLabel(text, i)
			at, ok := pathBefore(blanked, i)
			switch {
			case !ok:
				problem = "want the name of a metric before {, as in response.p99{step=login}"
			case found[at] != stepLabel{}:
				problem = "a second step"
			case problem == "" && strings.HasPrefix(strings.TrimLeft(string(text[end:]), " \t\r\n"), "."):
				problem = "want {step=NAME} behind the whole name of a metric, as in response.p99{step=login}"
			}
			if problem != "" {
				return blanked, found, append(faults, &Error{Column: i + 1, Message: problem})
			}
			found[at] = stepLabel{name, i}
			for ; i < end; i++ {
				blanked[i] = ' '
			}
		default:
			if of := decimal.FindStringIndex(string(text[i:min(i+mostDecimal, len(text))])); of != nil && (i == 0 || !isWord(text[i-1])) {
				copy(blanked[i+3:i+of[1]], append(text[i+4:i+of[1]:i+of[1]], ' '))
				i += of[1]
				continue
			}
			i++
		}
	}
	return blanked, found, nil
}

// decimal is a quantile as people write it: p99.9 for p999.
var decimal = regexp.MustCompile(`^p\d\d\.\d+\b`)

const mostDecimal = 16 // letters of one

// readLabel reads the label that begins at i, and returns the position after it.
func readLabel(text []rune, i int) (step string, end int, problem string) {
	end = i + 1
	for end < len(text) && text[end] != '}' {
		if text[end] == '"' || text[end] == '\'' {
			end = skipString(text, end)
		} else {
			end++
		}
	}
	if end >= len(text) {
		return "", end, "want } behind the name of a step, as in response.p99{step=login}"
	}
	label, name, has := strings.Cut(string(text[i+1:end]), "=")
	label, name = strings.TrimSpace(label), strings.TrimSpace(name)
	if n := len(name); n >= 2 && (name[0] == '"' || name[0] == '\'') && name[n-1] == name[0] {
		name = name[1 : n-1]
	}
	if !has || label != "step" || name == "" {
		return "", end + 1, fmt.Sprintf("want {step=NAME} behind a metric, such as response.p99{step=login}, not %s", quote(string(text[i:end+1])))
	}
	return name, end + 1, ""
}

// pathBefore returns where the words joined by dots begin that end before i.
func pathBefore(text []rune, i int) (start int, ok bool) {
	blanks := func() {
		for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t' || text[i-1] == '\n' || text[i-1] == '\r') {
			i--
		}
	}
	for {
		blanks()
		end := i
		for i > 0 && isWord(text[i-1]) {
			i--
		}
		if i == end {
			return start, ok
		}
		start, ok = i, true
		if blanks(); i == 0 || text[i-1] != '.' {
			return start, ok
		}
		i--
	}
}

// unknownStep says what is wrong with the name of a step.
func unknownStep(step string, known []string) string {
	if len(known) == 0 {
		return "unknown step " + quote(step) + "; the load has no scenario"
	}
	return "unknown step " + quote(step) + meant(step, known)
}

// withoutSteps says that a metric is not counted by steps.
func withoutSteps(name string) string {
	return quote(name) + " is not known of a step; throughput, response, service, errors.ratio and errors.total are, and of answers of language models first_token, token_time, tokens_per_second, prompt_tokens_per_second and goodput"
}
