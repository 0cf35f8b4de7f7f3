package k6

import (
	"slices"
	"strconv"
	"strings"

	"dyno/cli/imports/draft"
)

// The numbers of an iteration: of its user, of the iteration among the user's, and among those of all users.
type numbers [3]int

var (
	first  = numbers{1, 0, 0}
	second = numbers{2, 1, 1}
	// shown are numbers that no script has of its own: where they stand in a text, the text has the number.
	shown = numbers{70411, 80513, 90617}
)

// numberExpressions are what templates call the numbers.
var numberExpressions = [...]string{"user()", "iteration()", `iteration("all")`}

// texts are the parts of a request that may have numbers of the user and the iteration.
func (e *event) texts() []*string {
	all := []*string{&e.URL, &e.Body}
	for i := range e.Messages {
		all = append(all, &e.Messages[i])
	}
	for _, fields := range [][]draft.Field{e.Headers, e.Form} {
		for i := range fields {
			all = append(all, &fields[i].Value)
		}
	}
	for i := range e.Parts {
		all = append(all, &e.Parts[i].Value)
	}
	return all
}

// again carries out a user's first iteration and a later one, which it returns: with what only the first one has at its
// beginning, if the rest is alike.
func (r *run) again(s *workload, n numbers) recording {
	before, later := r.record(s, numbers{n[0]}), r.record(s, n)
	later.Once = len(before.Events) - len(later.Events)
	if later.Once <= 0 || before.Failed+later.Failed != "" || !slices.EqualFunc(before.Events[later.Once:], later.Events, isLike) {
		later.Once = 0
	}
	later.Events = slices.Concat(before.Events[:later.Once], later.Events)
	return later
}

// isLike tells whether the script does the same thing.
func isLike(a, b event) bool {
	return a.Line == b.Line && a.Column == b.Column && a.Kind == b.Kind && a.Method == b.Method && a.Socket == b.Socket
}

// markOnce notes what users do once, if all of another user's first iteration is like that of the first one.
func markOnce(events []event, other recording) {
	if slices.EqualFunc(events, other.Events, isLike) {
		for i := range other.Once {
			events[i].Once = true
		}
	}
}

// markNumbers puts marks in the place of the numbers of the user and the iteration, which a third recording shows, where
// that explains what the two others have.
func markNumbers(d *draft.Draft, ones, others, third []event) {
	for i := range min(len(ones), len(others), len(third)) {
		one, other, marked := ones[i].texts(), others[i].texts(), third[i].texts()
		if len(one) != len(other) || len(one) != len(marked) {
			continue
		}
		for k, text := range marked {
			if a := withNumbers(*text, first.text); a == *text || *one[k] != a {
				continue
			}
			*one[k] = withNumbers(*text, func(n int) string { return d.Mark(numberExpressions[n]) })
			if *other[k] == withNumbers(*text, second.text) {
				*other[k] = *one[k]
			}
		}
	}
}

// withNumbers puts others in the place of the numbers in a text that the third recording shows.
func withNumbers(text string, other func(n int) string) string {
	for n := range shown {
		text = strings.ReplaceAll(text, shown.text(n), other(n))
	}
	return text
}

func (n numbers) text(i int) string { return strconv.Itoa(n[i]) }
