package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"dyno/observe/profile"
)

// Bounds of a flame graph.
const (
	leastShare = 0.004 // of the whole: smaller boxes are left out
	mostDepth  = 40
	only       = 0.9 // of a function's time: so much is in one that it calls
)

// passesOn tells whether a function does little but call another one of its package, or of the kernel. It gets no box.
func passesOn(n *profile.Node) bool {
	return slices.ContainsFunc(n.Children, func(c *profile.Node) bool {
		return c.Name != profile.Rest && c.Total >= only*n.Total && packageOf(c.Function) == packageOf(n.Function)
	})
}

// packageOf returns the package of a Go function, or what else a function is of.
func packageOf(f profile.Function) string {
	begin := strings.LastIndexByte(f.Name, '/') + 1
	name, _, qualified := strings.Cut(f.Name[begin:], ".")
	if f.Mapping != "" || !qualified {
		return f.Mapping
	}
	return f.Name[:begin] + name
}

// flame reads the profiles of a variant's trials. A box of the graph is a point: its series is the group of its work, x the function,
// y its share in percent, low where it begins, and end its depth.
func flame(folder, kind, variant string) (points []point, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "trials", "*-"+variant, kind+".pb.gz")) // the pattern is right
	var list []*pprof.Profile
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		p, err := pprof.Parse(file)
		_ = file.Close() // it was read only
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, p)
	}
	all, err := profile.Merge(list)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", kind, variant, err)
	}
	root, err := profile.FlameDifference(&pprof.Profile{SampleType: all.SampleType}, all, kind, 1, 1, leastShare)
	if err != nil {
		return nil, err
	}
	var visit func(n *profile.Node, begin, depth float64, stack []profile.Function)
	visit = func(n *profile.Node, begin, depth float64, stack []profile.Function) {
		for _, c := range n.Children {
			share := 100 * c.Total / root.Total
			of := slices.Insert(slices.Clone(stack), 0, c.Function) // the leaf first
			switch {
			case c.Name == profile.Rest || depth == mostDepth:
			case passesOn(c):
				visit(c, begin, depth, of)
			default:
				group := string(profile.Classify(of))
				if strings.HasPrefix(group, string(profile.Own(""))) {
					group = "program"
				}
				points = append(points, point{group, c.Name, share, begin, depth})
				visit(c, begin, depth+1, of)
			}
			begin += share
		}
	}
	visit(root, 0, 0, nil)
	return points, nil
}

// tints are the colours of boxes by the group of their work; others are grey.
var tints = map[string]string{
	"program": "#e2c5ff", string(profile.Network): "#ffd8b5", string(profile.SystemCalls): "#b6e3ff", string(profile.HTTP): "#ffcecb",
	string(profile.GC): "#aceebb", string(profile.Memory): "#fae17d", string(profile.Scheduler): "#ffadda", string(profile.Serialization): "#a7f0e6",
}

// drawFlame returns a flame graph: callers are below what they call.
func (c curve) drawFlame(points []point) string {
	const (
		left, right, top, row = 8, 752, 68, 17
		letter                = 6.1 // the width of one
	)
	deepest := 0.0
	own := map[string]float64{}
	for i, p := range points {
		deepest = max(deepest, p.end)
		own[p.series] += p.y
		for _, child := range points[i+1:] {
			if child.end <= p.end {
				break
			}
			if child.end == p.end+1 {
				own[p.series] -= child.y
			}
		}
	}
	var groups []string
	for g := range own {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b string) int {
		if own[a] != own[b] {
			return int(math.Copysign(1, own[b]-own[a]))
		}
		return strings.Compare(a, b)
	})
	tint := func(group string) string { return cmp.Or(tints[group], "#d0d7de") }

	var b strings.Builder
	begin(&b, c.title, top+row*(int(deepest)+1)+8)
	at := float64(left)
	for _, g := range groups {
		text := fmt.Sprintf("%s %.0f %%", g, own[g])
		if own[g] < 0.5 || at+letter*float64(len(text))+30 > right {
			continue
		}
		fmt.Fprintf(&b, `<rect x="%.1f" y="34" width="12" height="12" fill="%s"/><text x="%.1f" y="44" fill="%s">%s</text>`+"\n", at, tint(g), at+17, grey, html.EscapeString(text))
		at += 34 + letter*float64(len(text))
	}
	for _, p := range points {
		x, width := left+(right-left)*p.low/100, (right-left)*p.y/100
		y := top + row*int(deepest-p.end)
		name := p.x[strings.LastIndexByte(p.x, '/')+1:]
		fmt.Fprintf(&b, `<g><title>%s %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, html.EscapeString(p.x), p.y, x, y, max(width-0.5, 0.3), row-1, tint(p.series))
		if room := int((width - 4) / letter); room >= 4 {
			if len(name) > room {
				name = name[:room-1] + "…"
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" font-size="11" fill="#1f2328">%s</text>`, x+2, y+12, html.EscapeString(strings.ToValidUTF8(name, "")))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
