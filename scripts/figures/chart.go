package main

import (
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	picture   = regexp.MustCompile(`!\[([^]]+)\]\(([^)/]+\.svg)\)`)
	published = regexp.MustCompile(`([0-9][0-9.,]*)×`)
	fall      = regexp.MustCompile(`−([0-9.]+) %`)
	measured  = regexp.MustCompile(`^([0-9.]+) \(([0-9.]+) … ([0-9.]+)\)$`)
	change    = regexp.MustCompile(`^(-?[0-9.]+)% \((-?[0-9.]+) … (-?[0-9.]+)\)$`)
)

// drawAll draws the pictures of all reports in a folder, after it has filled their translations.
func drawAll(folder string) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := translate(page); err != nil {
			return err
		}
		if err := errors.Join(draw(page), drawCurves(page)); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the picture of a report's page from its table of claims, and counts their outcomes in the line after
// <!-- counts -->, so that all state the same. The picture's title is its text in the page. Other pages have no
// such table.
func draw(page string) error {
	text, err := os.ReadFile(page) //nolint:gosec // a document of the repository
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	at := slices.Index(lines, "<!-- table claims -->")
	if at < 0 {
		return nil
	}
	m := picture.FindStringSubmatch(string(text))
	if m == nil {
		return fmt.Errorf("%s has claims and no picture: want ![TITLE](NAME.svg)", page)
	}
	claims := readTable(lines[min(at+2, len(lines)):])
	line := slices.Index(lines, "<!-- counts -->") + 1
	if line == 0 || line == len(lines) {
		return fmt.Errorf("%s has claims and no counts: want a line <!-- counts -->, and one that is replaced", page)
	}
	lines[line], err = counted(claims)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if now := strings.Join(lines, "\n"); now != string(text) {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil { //nolint:gosec // a document of the repository
			return err
		}
	}
	legend := "◇ published   ● measured, with its 95 % interval"
	if claims.chinese {
		legend = "◇ 公布值   ● 实测值及其 95 % 区间"
	}
	drawn := chart(m[1], legend, ratios(claims))
	return os.WriteFile(filepath.Join(filepath.Dir(page), m[2]), []byte(drawn), 0o644) //nolint:gosec // a document of the repository
}

// An outcome of a claim has words for several claims, a name in Chinese, and a colour.
type outcome struct{ name, several, chinese, colour string }

// outcomes are all that a claim can have, in the order of their counts.
func outcomes() []outcome {
	return []outcome{
		{"holds", "hold", "成立", "#1a7f37"}, {"agrees", "agree", "相符", "#1a7f37"},
		{"larger", "larger", "大于公布值", "#0969da"}, {"smaller", "smaller", "小于公布值", "#9a6700"},
		{"refuted", "refuted", "已否定", "#cf222e"}, {"not settled", "not settled", "尚未定论", grey},
		{"not testable here", "not testable here", "此处无法检验", grey},
	}
}

// outcomeNamed returns the outcome of a name, in English or Chinese.
func outcomeNamed(name string) (outcome, bool) {
	for _, o := range outcomes() {
		if o.name == name || o.chinese == name {
			return o, true
		}
	}
	return outcome{colour: grey}, false
}

const grey = "#59636e"

// counted counts the outcomes of claims.
func counted(claims table) (string, error) {
	counts := map[string]int{}
	for _, row := range claims.rows {
		o, ok := outcomeNamed(claims.cell(row, "outcome"))
		if !ok {
			return "", fmt.Errorf("%s: %q is not an outcome of a claim", row[0], claims.cell(row, "outcome"))
		}
		counts[o.name]++
	}
	var parts []string
	for _, o := range outcomes() {
		switch n := counts[o.name]; {
		case n > 0 && claims.chinese:
			parts = append(parts, fmt.Sprintf("%d 条%s", n, o.chinese))
		case n == 1:
			parts = append(parts, "1 "+o.name)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, o.several))
		}
	}
	if claims.chinese {
		return fmt.Sprintf("共 %d 条论断：%s。", len(claims.rows), strings.Join(parts, "，")), nil
	}
	return fmt.Sprintf("%d claims: %s.", len(claims.rows), strings.Join(parts, ", ")), nil
}

// A ratio is a claim about one, as published and as measured.
type ratio struct {
	id, label, outcome             string
	published, measured, low, high float64
}

// ratios returns the claims for which a ratio (N×) or a fall (−N %) was published and measured with an interval.
func ratios(claims table) (list []ratio) {
	value := func(text string) float64 {
		x, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64) // the pattern leaves digits only
		return x
	}
	for _, row := range claims.rows {
		r := ratio{id: row[0], label: strings.ReplaceAll(claims.cell(row, "what is claimed"), "`", ""), outcome: claims.cell(row, "outcome")}
		said, found := claims.cell(row, "published"), claims.cell(row, "measured")
		if p, m := published.FindStringSubmatch(said), measured.FindStringSubmatch(found); p != nil && m != nil {
			r.published, r.measured, r.low, r.high = value(p[1]), value(m[1]), value(m[2]), value(m[3])
		} else if p, m := fall.FindStringSubmatch(said), change.FindStringSubmatch(found); p != nil && m != nil {
			r.published, r.measured, r.low, r.high = 1-value(p[1])/100, 1+value(m[1])/100, 1+value(m[2])/100, 1+value(m[3])/100
		}
		if r.low > 0 {
			list = append(list, r)
		}
	}
	return list
}

// chart draws ratios on a logarithmic axis, a line each.
func chart(title, legend string, list []ratio) string {
	const (
		width, left, right = 980, 480, 860 // of the picture, and of its axis
		top, height        = 64, 22        // of the first line
	)
	least, most := 1.0, 1.0
	for _, r := range list {
		least, most = min(least, r.low, r.published), max(most, r.high, r.published)
	}
	least, most = least/1.2, most*1.2
	x := func(v float64) float64 { return left + (right-left)*math.Log(v/least)/math.Log(most/least) }

	var b strings.Builder
	bottom := top + height*len(list)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#1f2328">`+"\n", width, bottom+12)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, bottom+12)
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="%d" y="20">%s</text>`+"\n", left+90, legend)
	for _, v := range ticks(least, most) {
		shade := "#d0d7de"
		if v == 1 {
			shade = "#1f2328"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s"/>`+"\n", x(v), x(v), top-14, bottom, shade)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#59636e">%s×</text>`+"\n", x(v), top-20, strconv.FormatFloat(v, 'f', -1, 64))
	}
	for i, r := range list {
		y := top + height*i
		of, _ := outcomeNamed(r.outcome)
		colour := of.colour
		fmt.Fprintf(&b, `<text x="8" y="%d"><tspan fill="#59636e">%s</tspan> %s</text>`+"\n", y+4, html.EscapeString(r.id), html.EscapeString(r.label))
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>`+"\n", x(r.low), x(r.high), y, y, colour)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%d" r="4.5" fill="%s"/>`+"\n", x(r.measured), y, colour)
		fmt.Fprintf(&b, `<path d="M %.1f %d l 6 6 l -6 6 l -6 -6 z" fill="none" stroke="#1f2328" stroke-width="1.5"/>`+"\n", x(r.published), y-6)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", right+12, y+4, colour, html.EscapeString(r.outcome))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// ticks returns the powers of ten between two values, and twice and five times them where there are few.
func ticks(least, most float64) (list []float64) {
	steps := []float64{1}
	if most/least < 300 {
		steps = []float64{1, 2, 5}
	}
	for power := math.Floor(math.Log10(least)); power <= math.Log10(most); power++ {
		for _, step := range steps {
			if v := step * math.Pow(10, power); v >= least && v <= most {
				list = append(list, v)
			}
		}
	}
	return list
}
