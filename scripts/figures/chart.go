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
	measured  = regexp.MustCompile(`^([0-9.]+) \(([0-9.]+) … ([0-9.]+)\)$`)
)

// drawAll draws the pictures of all reports in a folder.
func drawAll(folder string) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := errors.Join(draw(page), drawCurves(page)); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the picture of a report's page from its table of claims, so that both state the same. The picture's
// title is its text in the page. Other pages have no such table.
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
	drawn := chart(m[1], ratios(readTable(lines[min(at+2, len(lines)):])))
	return os.WriteFile(filepath.Join(filepath.Dir(page), m[2]), []byte(drawn), 0o644) //nolint:gosec // a document of the repository
}

// A ratio is a claim about one, as published and as measured.
type ratio struct {
	id, label, outcome             string
	published, measured, low, high float64
}

// ratios returns the claims for which a ratio was published (N×) and measured with an interval.
func ratios(claims table) (list []ratio) {
	value := func(text string) float64 {
		x, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64) // the pattern leaves digits only
		return x
	}
	for _, row := range claims.rows {
		p := published.FindStringSubmatch(claims.cell(row, "published"))
		m := measured.FindStringSubmatch(claims.cell(row, "measured"))
		if p == nil || m == nil || value(m[2]) == 0 {
			continue
		}
		list = append(list, ratio{
			id: row[0], label: strings.ReplaceAll(claims.cell(row, "what is claimed"), "`", ""), outcome: claims.cell(row, "outcome"),
			published: value(p[1]), measured: value(m[1]), low: value(m[2]), high: value(m[3]),
		})
	}
	return list
}

// colours are those of the outcomes; a claim of another outcome is grey.
var colours = map[string]string{"holds": "#1a7f37", "refuted": "#cf222e", "direction only": "#9a6700"}

// chart draws ratios on a logarithmic axis, a line each.
func chart(title string, list []ratio) string {
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
	fmt.Fprintf(&b, `<text x="%d" y="20">◇ published   ● measured, with its 95 %% interval</text>`+"\n", left+90)
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
		colour := colours[r.outcome]
		if colour == "" {
			colour = "#59636e"
		}
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
