package main

import (
	"path/filepath"
	"testing"
)

func TestCheckClaims(t *testing.T) {
	experiments := folder(t, map[string]string{"R1-a.yaml": `claims:
  - id: R1.1/a
    says: a
    published: 1.2ms
    measured: 'value(a, response.p99)'
  - id: R1.1/b
    says: b
    published: -42%
  - id: R1/c
    says: c
    holds: '1 < 2'
`})
	a, b, c := "| R1.1/a | a | 1,200 µs |  |  |  |", "| R1.1/b | b | 0.58×, −42 % |  |  |  |", "| R1/c | c | more |  |  |  |"
	for _, f := range []struct {
		page, want string
	}{
		{page(a, b, c), ""},
		{page(a, b), "no page of a report has the claim R1/c"},
		{page(a, b, c, "| R1/d | d | 2× |  |  |  |"), "R1.md: no experiment has the claim R1/d"},
		{page(a, "| R1.1/b | b | 0.58×, −24 % |  |  |  |", c), "R1.md: R1.1/b: the experiment says that -42% was published"},
	} {
		reports := folder(t, map[string]string{"R1.md": f.page, "other.md": "a page"})
		err := checkClaims(experiments, reports)
		if f.want != "" && f.page != page(a, b) {
			f.want = filepath.Join(reports, f.want)
		}
		if got := errorText(err); got != f.want {
			t.Errorf("%q, want %q", got, f.want)
		}
	}
}

func TestClaimTwice(t *testing.T) {
	experiments := folder(t, map[string]string{"R1-a.yaml": "  - id: R1.1/a\n", "R1-b.yaml": "  - id: R1.1/a\n"})
	want := filepath.Join(experiments, "R1-b.yaml") + ": another experiment has the claim R1.1/a"
	if got := errorText(checkClaims(experiments, folder(t, map[string]string{"R1.md": page("| R1.1/a | a | more |  |  |  |")}))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The pages of the repository have all claims, with what was published.
func TestClaimsOfReports(t *testing.T) {
	if err := checkClaims("../../experiments/reports", "../../docs/reports"); err != nil {
		t.Error(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
