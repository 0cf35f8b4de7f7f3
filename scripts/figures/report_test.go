package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runs are the tables of a report's runs.
const runs = `# r1-load

## claims

|  | outcome | published | measured | claim | run |
| --- | --- | --- | --- | --- | --- |
| R0.1 | holds |  | 1.00 (0.900 … 1.10) | of another report | r1-load |
| R1.1/a | smaller | 1000 | 1.50 (1.20 … 2.00) | a | r1-load |
| R1.1/b | refuted | -75% | 50.0% (40.0 … 60.0) | b | r1-load |
| R1/c | not testable here | 2 |  | c (why) | r1-load |

## r1-load

### claims

|  | outcome | measured | claim |
| --- | --- | --- | --- |

### ladder, in throughput

| step | throughput | marginal \[7\] \[8\] |
| --- | ---: | --- |
| 1-none | \[1k/s … 2k/s\] \[9\] |  |
| 2-all | 3k/s | +50% |

## r1-other
`

// page returns a report's page.
func page(claims ...string) string {
	return `# R1

![R1: published & measured](R1.svg)

<!-- counts -->
3 claims: 1 smaller, 1 refuted, 1 not testable here.

<!-- table claims -->

|  | what is claimed | published | measured | outcome | why |
| --- | --- | --- | --- | --- | --- |
` + strings.Join(claims, "\n") + `

<!-- table r1-load · ladder -->

| step | marginal | throughput | why |
| --- | --- | ---: | --- |
| 2-all |  |  | kept |
| 1-none |  |  |  |
`
}

func TestRefresh(t *testing.T) {
	dir := folder(t, map[string]string{
		"runs.md":  runs,
		"R1.md":    page("| R1.1/b | b < c | −75 % |  |  | kept |", "| R1.1/a | a | 1,000×, more | 9 | refuted | old |", "| R1/c | c | 2× |  |  | none |"),
		"other.md": "![a picture](other.svg) of another page\n",
	})
	notes, err := refresh(filepath.Join(dir, "runs.md"), filepath.Join(dir, "R1.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"R1.1/a: refuted is now smaller: change what the page says about it"}; !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	got, err := os.ReadFile(filepath.Join(dir, "R1.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := page("| R1.1/b | b < c | −75 % | 50.0% (40.0 … 60.0) | refuted | kept |",
		"| R1.1/a | a | 1,000×, more | 1.50 (1.20 … 2.00) | smaller | old |", "| R1/c | c | 2× |  | not testable here | none |")
	want = strings.Replace(want, "| 2-all |  |  | kept |", "| 2-all | +50% | 3k/s | kept |", 1)
	want = strings.Replace(want, "| 1-none |  |  |  |", `| 1-none |  | \[1k/s … 2k/s\] |  |`, 1)
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}

	drawn, err := os.ReadFile(filepath.Join(dir, "R1.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(drawn), "<circle"); n != 2 {
		t.Errorf("the picture has %d ratios, want 2:\n%s", n, drawn)
	}
	for _, want := range []string{"published &amp; measured", "R1.1/b</tspan> b &lt; c", ">refuted<", ">1000×<"} {
		if !strings.Contains(string(drawn), want) {
			t.Errorf("the picture has no %q:\n%s", want, drawn)
		}
	}
	if err := drawAll(dir); err != nil {
		t.Error(err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "R1.svg")); err != nil || string(again) != string(drawn) {
		t.Errorf("the picture differs when it is drawn again: %v", err)
	}
}

func TestFillFaults(t *testing.T) {
	a, b, c := "| R1.1/a | a | 1× |  |  |  |", "| R1.1/b | b | 1× |  |  |  |", "| R1/c | c | 1× |  |  |  |"
	for _, f := range []struct{ page, want string }{
		{page(a, c), "the claim R1.1/b is missing"},
		{page(a, b), "the claim R1/c is missing"},
		{page(a, b, c, "| R1.2 | d | 1× |  |  |  |"), `the row "R1.2"`},
		{page(a, b, "| R1/c | c | 1× |  |  |"), "want 6 cells, and it has 5"},
		{"<!-- table r1-load · sweep -->", `there is no table under "r1-load · sweep"`},
		{"<!-- table r1-other · ladder -->", `there is no table under "r1-other · ladder"`},
	} {
		if _, _, err := fill("R1", f.page, runs); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, want %s", f.page, err, f.want)
		}
	}
}
