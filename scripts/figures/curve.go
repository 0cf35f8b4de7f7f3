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

	"dyno/internal/units"
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
//	flame        FIGURE is a profile, such as cpu, of one variant
type curve struct {
	kind, run, figure, unit string
	variants                []string
	title, name             string // of the picture
}

var curves = regexp.MustCompile(`<!-- curve (time|variants|percentiles|flame) (\S+) (\S+) (\S+)((?: \S+)*) -->\n!\[([^]]+)\]\(([^)/]+)\.svg\)`)

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
		case "flame":
			if points, err = flame(folder, c.figure, v.Name); err != nil {
				return nil, err
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
	w := csv.NewWriter(&b)
	rows := [][]string{{"series", "x", "y", "low", "high"}}
	for _, p := range points {
		rows = append(rows, []string{p.series, p.x, three(p.y), three(p.low), three(p.end)})
	}
	if err := w.WriteAll(rows); err != nil {
		return err
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

// width is that of all pictures of curves: their texts can be read on a page of 700 pixels.
const width = 760

// begin begins a picture.
func begin(b *strings.Builder, title string, height int) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="8" y="20" font-size="14" font-weight="bold" fill="#1f2328">%s</text>`+"\n", html.EscapeString(title))
}

// An axis places values between two ends of a picture: from zero on, or logarithmically where they differ much.
type axis struct {
	least, most float64
	logarithmic bool
	from, to    float64 // the ends
}

// axisOf returns the axis of all values of points.
func axisOf(points []point, from, to float64) axis {
	a := axis{least: math.Inf(1), from: from, to: to}
	for _, p := range points {
		for _, v := range []float64{p.y, p.low, p.end} {
			if v > 0 {
				a.least, a.most = min(a.least, v), max(a.most, v)
			}
		}
	}
	a.logarithmic = a.most/a.least > 20
	return a
}

func (a axis) at(v float64) float64 {
	share := v / (a.most * 1.1)
	if a.logarithmic {
		low, high := math.Log(a.least/1.2), math.Log(a.most*1.2)
		share = max(0, (math.Log(v)-low)/(high-low))
	}
	return a.from + (a.to-a.from)*share
}

func (a axis) marks() []float64 {
	if a.logarithmic {
		return ticks(a.least/1.2, a.most*1.2)
	}
	return even(a.most * 1.1)
}

// draw returns the picture.
func (c curve) draw(points []point) string {
	switch c.kind {
	case "flame":
		return c.drawFlame(points)
	case "variants":
		return c.drawRows(points)
	}
	return c.drawLines(points)
}

// drawRows returns a picture with a row for each variant.
func (c curve) drawRows(points []point) string {
	const (
		left, right = 200, 660
		top, row    = 64, 24
	)
	floor := top + row*len(points)
	x := axisOf(points, left, right)
	var b strings.Builder
	begin(&b, c.title, floor+8)
	for _, v := range x.marks() {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#d0d7de"/>`+"\n", x.at(v), x.at(v), top-14, floor)
		write(&b, x.at(v), top-20, "middle", grey, round(v)+strings.Replace(" "+c.unit, " /", "/", 1))
	}
	for i, p := range points {
		y := float64(top + row*i)
		write(&b, 8, y+4, "start", "#1f2328", p.x)
		if !math.IsNaN(p.low) && !math.IsNaN(p.end) && (p.low > 0 || !x.logarithmic) {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="3" opacity="0.5"/>`+"\n", x.at(p.low), x.at(p.end), y, y, hues[0])
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"/>`+"\n", x.at(p.y), y, hues[0])
		write(&b, right+12, y+4, "start", hues[0], units.Counts().Write(p.y))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// round writes a round number, without zeros after its point.
func round(v float64) string {
	text := units.Counts().Write(v)
	digits := strings.TrimRight(text, "kM")
	if strings.Contains(digits, ".") {
		return strings.TrimRight(strings.TrimRight(digits, "0"), ".") + text[len(digits):]
	}
	return text
}

// write writes a text of a picture.
func write(b *strings.Builder, x, y float64, anchor, fill, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, fill, html.EscapeString(text))
}

// drawLines returns a picture with a line for each variant, over minutes or percentiles.
func (c curve) drawLines(points []point) string {
	const (
		height                  = 320
		left, right, top, floor = 62, 580, 50, 284
	)
	minutes := func(p point) float64 {
		v, err := strconv.ParseFloat(p.x, 64)
		if err != nil {
			return 0
		}
		return v
	}
	if c.kind == "time" { // what comes before the load is not shown
		points = slices.DeleteFunc(slices.Clone(points), func(p point) bool { return minutes(p) < 0 })
	}
	var series, names []string
	last := 0.0
	for _, p := range points {
		if !slices.Contains(series, p.series) {
			series = append(series, p.series)
		}
		if !slices.Contains(names, p.x) {
			names = append(names, p.x)
		}
		last = max(last, minutes(p))
	}
	y := axisOf(points, floor, top)
	y.logarithmic = y.logarithmic && c.kind != "time"
	x := func(p point) float64 {
		if c.kind == "time" {
			return left + (right-left)*minutes(p)/last
		}
		return left + (right-left)*(float64(slices.Index(names, p.x))+0.5)/float64(len(names))
	}

	var b strings.Builder
	begin(&b, c.title, height)
	write(&b, 8, top-12, "start", grey, c.unit)
	for _, v := range y.marks() {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#d0d7de"/>`+"\n", left, right, y.at(v), y.at(v))
		write(&b, left-6, y.at(v)+4, "end", grey, round(v))
	}
	if c.kind == "time" {
		unit, of := " min", 1.
		if last < 2 {
			unit, of = " s", 60
		}
		for _, v := range even(last * of) {
			write(&b, left+(right-left)*v/last/of, floor+18, "middle", grey, strconv.FormatFloat(v, 'g', -1, 64)+unit)
		}
	} else {
		for _, name := range names {
			write(&b, x(point{x: name}), floor+18, "middle", grey, strings.Replace(name, "p999", "p99.9", 1))
		}
	}
	for i, s := range series {
		colour := hues[i%len(hues)]
		var line []string
		for _, p := range points {
			if p.series != s || math.IsNaN(p.y) || y.logarithmic && p.y <= 0 {
				continue
			}
			line = append(line, fmt.Sprintf("%.1f,%.1f", x(p), y.at(p.y)))
			if c.kind == "time" {
				continue
			}
			if !math.IsNaN(p.low) && !math.IsNaN(p.end) && (p.low > 0 || !y.logarithmic) {
				fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="3" opacity="0.5"/>`+"\n", x(p), x(p), y.at(p.low), y.at(p.end), colour)
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x(p), y.at(p.y), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "), colour)
		if len(series) > 1 {
			write(&b, right+14, float64(top+18*i), "start", colour, s)
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
