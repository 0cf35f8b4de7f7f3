package template

import (
	"fmt"
	"strings"
	"testing"
)

// asked returns the variables of conditions; x varies.
func asked(x string) *names {
	return &names{varies: "x", texts: map[string]string{
		"n": "10", "status": "vip", "empty": "", "half": "0.5", "big": "1e100", "x": x, "not-a": "b",
	}}
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		condition, x string // x is the value that varies, as JSON has it
		want         bool
	}{
		{`x == "vip"`, `"vip"`, true},
		{`x != "vip"`, `"no"`, true},
		{`x == status`, `"vip"`, true},
		{`x == "3"`, "3", true},
		{`x == "3"`, "3.0", false},
		{`x == 3`, "3.0", true},
		{`3==x`, "3.0", true},
		{`x != 3`, `"three"`, true},
		{`x == 3`, `"three"`, false},
		{`x > 3`, "3", false},
		{`x > 3`, "3.01", true},
		{`x <= -3.5`, "-3.5e0", true},
		{`x < n`, "9", true}, // not as texts
		{`x < 3`, `"three"`, false},
		{`x >= 0`, "", false},
		{`x > 0`, `"1_000"`, false},
		{`x > 0`, `"+1"`, false},
		{`x > 0`, `"1e"`, false},
		{`x > 0`, `"` + strings.Repeat("1", maxNumber) + `"`, true},
		{`x > 0`, `"` + strings.Repeat("1", maxNumber+1) + `"`, false},
		{`x == big`, `"1e100"`, true},
		{`x > half`, "0.6", true},
		{`defined(x)`, "1", true},
		{`not defined(x)`, "", true},
		{`defined(status) and not defined(empty)`, "", true},
		{`x == 1 or x == 2 and n == 11`, "1", true},
		{`(x == 1 or x == 2) and n == 11`, "1", false},
		{`( x==1 or (x==2) )and n==10`, "2", true},
		{`not (x == 1) and not x == 2`, "3", true},
		{`column("not-a") == "b"`, "", true},
		{`not-a == "b" and random_int(5, 5) == 5`, "", true},
		{`base64(x) == "eA=="`, `"x"`, true},
	} {
		scope := asked(strings.Trim(tt.x, `"`))
		condition, _, faults := CompileCondition(tt.condition, scope)
		if len(faults) > 0 {
			t.Errorf("%s: %+v", tt.condition, faults)
			continue
		}
		if got := condition.Holds(scope.state()); got != tt.want {
			t.Errorf("%s with x %s: %v, want %v", tt.condition, tt.x, got, tt.want)
		}
	}
}

func TestConditionFaults(t *testing.T) {
	deep := strings.Repeat("(", maxNesting+2)
	for _, tt := range []struct{ condition, want string }{
		{`status`, `at offset 6: the end where a comparison is wanted; want ==, !=, <, <=, > or >= and what to compare with, or defined(name)`},
		{`status = "vip"`, `at offset 7: '=' where a comparison is wanted`},
		{`status == `, `at offset 10: the end where an operand is wanted; want a variable, a number or a text in quotes`},
		{`status == "vip" && n > 3`, `at offset 16: '&' where and, or or the end is wanted; want a condition such as`},
		{`{{ status }} == "vip"`, `at offset 0: '{' where an operand is wanted`},
		{`state == "vip"`, `at offset 0: no variable "state"; did you mean "status"?`},
		{`n > "3"`, `at offset 4: a text in quotes, which is compared as a number; leave out the quotes`},
		{`n == 3x`, `at offset 5: "3x" is no number`},
		{`(n == 3`, `at offset 7: the end where ) is wanted`},
		{`defined("n")`, `at offset 0: defined without a variable; want it as in defined(token)`},
		{`defined(m)`, `at offset 8: no variable "m"`},
		{`n == random(1)`, `at offset 5: no function "random"`},
		{`status == "vip`, `at offset 10: the quote is never closed`},
		{deep, "at offset 17: conditions nested too deep; want at most 16 levels"},
		{strings.Repeat("not ", maxNesting+2), "at offset 68: conditions nested too deep"},
		{strings.Repeat(" ", MaxCondition+1), "a condition of 4097 bytes; want at most 4096"},
	} {
		_, _, faults := CompileCondition(tt.condition, asked(""))
		if len(faults) == 0 {
			t.Errorf("%s: no fault, want %s", tt.condition, tt.want)
			continue
		}
		got := fmt.Sprintf("at offset %d: %s; %s", faults[0].Offset, faults[0].Problem, faults[0].Hint)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.condition, got, tt.want)
		}
	}
}

// Any text of a condition is refused with a position in it, or can be evaluated.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{`x == "vip" and not (n > 3 or defined(x))`, `1e5<=-3.5`, `status != x`, `not`, `((`, `defined(column("x"))`, `base64(x, n) == 'é'`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scope := asked("1")
		condition, _, faults := CompileCondition(text, scope)
		for _, f := range faults {
			if f.Offset > len(text) {
				t.Errorf("%q: %+v", text, f)
			}
		}
		if len(faults) == 0 {
			condition.Holds(scope.state())
		}
	})
}
