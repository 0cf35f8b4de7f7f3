package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A curve is a picture of one run, which a report's page declares above it:
//
//	<!-- curve KIND RUN FIGURE UNIT VARIANT... -->
//	![TITLE](NAME.svg)
//
// Its points are in NAME.csv, which is read from the run's folder when the page is filled. Without variants, all are shown.
//
//	time         FIGURE is a column of the observers, over the minutes of a variant's first trial
//	variants     FIGURE of each variant, with its 95 % interval
//	percentiles  the percentiles of FIGURE, such as response, a line for each variant
type curve struct {
	kind, run, figure, unit string
	variants                []string
	title, name             string // of the picture
}

var curves = regexp.MustCompile(`<!-- curve (time|variants|percentiles) (\S+) (\S+) (\S+)((?: \S+)*) -->\n!\[([^]]+)\]\(([^)/]+)\.svg\)`)

// scales are the units of pictures, in the units of runs.
var scales = map[string]float64{"µs": 1e-6, "ms": 1e-3, "s": 1, "/s": 1, "MiB": 1 << 20, "KiB": 1 << 10, "%": 1e-2, "×": 1}

// data is the file with the curve's points. A page in another language has a picture of its own, NAME.zh.svg, of the same points.
func (c curve) data(page string) string {
	name, _, _ := strings.Cut(c.name, ".")
	return filepath.Join(filepath.Dir(page), name+".csv")
}

// curvesOf returns the curves that a page declares.
func curvesOf(page string) (list []curve) {
	for _, m := range curves.FindAllStringSubmatch(page, -1) {
		list = append(list, curve{m[1], m[2], m[3], m[4], strings.Fields(m[5]), m[6], m[7]})
	}
	return list
}

// A point of a curve. x is a number over time, else the name of a variant or a percentile.
type point struct {
	series, x   string
	y, low, end float64 // the value and its interval's ends; NaN where there is none
}

// take reads the curve's points from the folder of its run. It returns nil if the folder is not there.
func (c curve) take(folder string) (points []point, err error) {
	var run struct {
		Variants []struct {
			Name    string `json:"name"`
			Figures map[string]struct {
				Estimate  float64
				Low, High *float64
			} `json:"figures"`
		} `json:"variants"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "run.json")) //nolint:gosec // a run's folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		return nil, err
	}
	scale, known := scales[c.unit]
	if !known {
		return nil, fmt.Errorf("the curve %s: the unit %q is not known", c.name, c.unit)
	}
	for _, v := range run.Variants {
		if len(c.variants) > 0 && !slices.Contains(c.variants, v.Name) || strings.HasSuffix(v.Name, ".control") {
			continue
		}
		add := func(series, x, figure string) {
			f, ok := v.Figures[figure]
			if !ok {
				return
			}
			p := point{series, x, f.Estimate / scale, math.NaN(), math.NaN()}
			if f.Low != nil && f.High != nil {
				p.low, p.end = *f.Low/scale, *f.High/scale
			}
			points = append(points, p)
		}
		switch c.kind {
		case "variants":
			add(c.figure, v.Name, c.figure)
		case "percentiles":
			for _, p := range []string{"p50", "p75", "p90", "p95", "p99", "p999", "max"} {
				add(v.Name, p, c.figure+"."+p)
			}
		case "time":
			over, err := overTime(filepath.Join(folder, "trials", "*-"+v.Name, "series.csv"), c.figure)
			if err != nil {
				return nil, err
			}
			for _, p := range over {
				points = append(points, point{v.Name, p.x, p.y / scale, math.NaN(), math.NaN()})
			}
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("the curve %s: %s has no figure %s", c.name, folder, c.figure)
	}
	return points, nil
}

// overTime reads a column of the first file of a pattern, with at most 100 points: means of equal parts.
func overTime(pattern, column string) (points []point, err error) {
	files, _ := filepath.Glob(pattern) // the pattern is right
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no %s", pattern)
	}
	file, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was read only
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	at := slices.Index(rows[0], column)
	if at < 0 {
		return nil, fmt.Errorf("%s has no column %s", files[0], column)
	}
	const most = 100
	for part := range slices.Chunk(rows[1:], max(1, (len(rows)-1+most-1)/most)) {
		var x, y, n float64
		for _, row := range part {
			t, err1 := strconv.ParseFloat(row[0], 64)
			v, err2 := strconv.ParseFloat(row[at], 64)
			if err1 == nil && err2 == nil && !math.IsNaN(v) {
				x, y, n = x+t/60, y+v, n+1
			}
		}
		if n > 0 {
			points = append(points, point{x: three(x / n), y: y / n})
		}
	}
	return points, nil
}

// three writes a number with three digits; nothing for NaN.
func three(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// save writes points as CSV.
func save(path string, points []point) error {
	var b strings.Builder
	b.WriteString("series,x,y,low,high\n")
	for _, p := range points {
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s\n", p.series, p.x, three(p.y), three(p.low), three(p.end))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // a document of the repository
}

// load reads the points that save has written.
func load(path string) (points []point, err error) {
	file, err := os.Open(path) //nolint:gosec // a document of the repository
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was read only
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	for _, row := range rows[1:] {
		points = append(points, point{row[0], row[1], number(row[2]), number(row[3]), number(row[4])})
	}
	return points, nil
}

// takeCurves reads the points of a page's curves from the folders of runs, as far as these are there.
func takeCurves(runs, page string) error {
	text, err := os.ReadFile(page) //nolint:gosec // a document of the repository
	if err != nil {
		return err
	}
	for _, c := range curvesOf(string(text)) {
		points, err := c.take(filepath.Join(runs, c.run))
		if err != nil {
			return err
		}
		if points != nil {
			if err := save(c.data(page), points); err != nil {
				return err
			}
		}
	}
	return nil
}

// drawCurves draws the curves of a page from their points.
func drawCurves(page string) error {
	text, err := os.ReadFile(page) //nolint:gosec // a document of the repository
	if err != nil {
		return err
	}
	for _, c := range curvesOf(string(text)) {
		points, err := load(c.data(page))
		if err != nil {
			return err
		}
		path := filepath.Join(filepath.Dir(page), c.name+".svg")
		if err := os.WriteFile(path, []byte(c.draw(points)), 0o644); err != nil { //nolint:gosec // a document of the repository
			return err
		}
	}
	return nil
}

// hues are the colours of lines, in order.
var hues = []string{"#0969da", "#1a7f37", "#bc4c00", "#8250df", "#cf222e", "#57606a", "#9a6700", "#1b7c83"}

// draw returns the picture. Its scale is linear over time, which begins at zero, and logarithmic where the values differ much.
func (c curve) draw(points []point) string {
	const (
		width, height           = 980, 340
		left, right, top, floor = 70, 780, 50, 300
	)
	var series, names []string
	least, most, last := math.Inf(1), 0.0, 0.0
	for _, p := range points {
		if !slices.Contains(series, p.series) {
			series = append(series, p.series)
		}
		if !slices.Contains(names, p.x) {
			names = append(names, p.x)
		}
		for _, v := range []float64{p.y, p.low, p.end} {
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
		minutes, _ := strconv.ParseFloat(p.x, 64) // 0 of a name
		last = max(last, minutes)
	}
	logarithmic := c.kind != "time" && most/least > 20
	y := func(v float64) float64 {
		if logarithmic {
			low, high := math.Log(least/1.2), math.Log(most*1.2)
			return floor - (floor-top)*max(0, (math.Log(v)-low)/(high-low))
		}
		return floor - (floor-top)*v/(most*1.1)
	}
	x := func(name string) float64 {
		if minutes, err := strconv.ParseFloat(name, 64); c.kind == "time" && err == nil {
			return left + (right-left)*minutes/last
		}
		return left + (right-left)*(float64(slices.Index(names, name))+0.5)/float64(len(names))
	}

	var b strings.Builder
	text := func(x, y float64, anchor, fill, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, fill, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(c.title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="bold" fill="#1f2328">%s</text>`+"\n", html.EscapeString(c.title))
	marks := even(most * 1.1)
	if logarithmic {
		marks = ticks(least/1.2, most*1.2)
	}
	text(8, top-12, "start", "#59636e", c.unit)
	for _, v := range marks {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#d0d7de"/>`+"\n", left, right, y(v), y(v))
		text(left-6, y(v)+4, "end", "#59636e", strconv.FormatFloat(v, 'g', -1, 64))
	}
	if c.kind == "time" {
		for _, v := range even(last) {
			text(left+(right-left)*v/last, floor+18, "middle", "#59636e", strconv.FormatFloat(v, 'g', -1, 64)+" min")
		}
	} else {
		for _, name := range names {
			text(x(name), floor+18, "middle", "#59636e", strings.Replace(name, "p999", "p99.9", 1))
		}
	}
	for i, s := range series {
		colour := hues[i%len(hues)]
		var line []string
		for _, p := range points {
			if p.series != s || math.IsNaN(p.y) || logarithmic && p.y <= 0 {
				continue
			}
			line = append(line, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			if c.kind == "time" {
				continue
			}
			if !math.IsNaN(p.low) && !math.IsNaN(p.end) && (p.low > 0 || !logarithmic) {
				fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="3" opacity="0.5"/>`+"\n", x(p.x), x(p.x), y(p.low), y(p.end), colour)
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x(p.x), y(p.y), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "), colour)
		if len(series) > 1 {
			text(right+16, float64(top+18*i), "start", colour, s)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// even returns some round values from zero to a limit.
func even(limit float64) (list []float64) {
	step := math.Pow(10, math.Floor(math.Log10(limit)))
	for limit/step < 4 {
		step /= 2
	}
	for i := 0.0; i*step <= limit; i++ {
		list = append(list, i*step)
	}
	return list
}
