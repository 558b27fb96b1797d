//go:build integration

package monitoring

import (
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
)

var picture = flag.String("picture", "", "draw the dashboard of a few minutes more into this `file`, as SVG")

const (
	faults = 9 // for the picture

	column, line   = 52, 34 // pixels of Grafana's grid
	pointsOfAPanel = 120
	legendEntries  = 6
)

// palette has a colour for each series; what is more starts over.
var palette = []string{"#3871b8", "#e0752d", "#3f9142", "#bf1b00", "#8f3bb8", "#b8860b", "#0a8f8f", "#6d6d6d"}

// paint goes on for a while, and draws the panels of the dashboard.
func (s *scene) paint(path string) {
	for range faults {
		s.fault()
	}
	from, to := s.began, time.Now()
	all := panels(s.t)
	last := all[len(all)-1].GridPos
	width, height := 24*column, (last.Y+last.H)*line
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#f4f5f5"/>`+"\n", width, height)
	for _, p := range all {
		s.draw(&out, p, from, to)
	}
	out.WriteString("</svg>\n")
	s.Expect(os.WriteFile(path, []byte(out.String()), 0o600)).To(Succeed())
}

// curve is a series of a panel, with its name in the legend.
type curve struct {
	name   string
	points []point
}

// draw draws one panel.
func (s *scene) draw(out *strings.Builder, p panel, from, to time.Time) {
	g := p.GridPos
	fmt.Fprintf(out, `<g transform="translate(%d,%d)">`, g.X*column, g.Y*line)
	defer out.WriteString("</g>\n")
	if p.Type == "row" {
		fmt.Fprintf(out, `<text x="6" y="24" font-size="15" font-weight="bold">%s</text>`, html.EscapeString(p.Title))
		return
	}
	w, h := g.W*column-6, g.H*line-6
	fmt.Fprintf(out, `<rect x="3" y="3" width="%d" height="%d" fill="#fff" stroke="#ddd"/><text x="10" y="20" font-weight="bold">%s</text>`,
		w, h, html.EscapeString(p.Title))
	var curves []curve
	for _, target := range p.Targets {
		expr := filled(target.Expr, fmt.Sprintf("%ds", int(to.Sub(from).Seconds())))
		result, err := s.prometheus.queryRange(s.t.Context(), expr, from, to, to.Sub(from)/pointsOfAPanel)
		s.Expect(err).NotTo(HaveOccurred())
		for _, one := range result {
			curves = append(curves, curve{legend(target.LegendFormat, one.Metric), one.Values})
		}
	}
	defaults := p.FieldConfig.Defaults
	if defaults.Custom.Stacking.Mode == "normal" {
		stack(curves)
	}
	switch p.Type {
	case "stat":
		value := curves[0].points[len(curves[0].points)-1].value
		if defaults.Decimals != nil {
			value = math.Round(value)
		}
		fmt.Fprintf(out, `<text x="%d" y="%d" font-size="40" text-anchor="middle">%s</text>`, w/2, h-24, amount(value, ""))
	case "table":
		for i, c := range curves {
			fmt.Fprintf(out, `<text x="14" y="%d">%s: %s</text>`, 48+i*20, html.EscapeString(c.name), amount(c.points[len(c.points)-1].value, ""))
		}
	default:
		plot(out, curves, defaults.Unit, float64(w), float64(h), seconds(from), seconds(to))
	}
}

// stack puts each curve on those before it.
func stack(curves []curve) {
	sum := map[float64]float64{}
	for _, c := range curves {
		for i := range c.points {
			sum[c.points[i].time] += c.points[i].value
			c.points[i].value = sum[c.points[i].time]
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// plot draws curves over time, with a scale and a legend.
func plot(out *strings.Builder, curves []curve, unit string, w, h, from, to float64) {
	const left, right, top, bottom = 58, 12, 34, 50
	most := 0.0
	for _, c := range curves {
		for _, p := range c.points {
			if !math.IsNaN(p.value) && !math.IsInf(p.value, 0) {
				most = max(most, p.value)
			}
		}
	}
	most = scale(most)
	x := func(t float64) float64 { return left + (t-from)/(to-from)*(w-left-right) }
	y := func(v float64) float64 { return h - bottom - v/most*(h-top-bottom) }
	for i := range 3 {
		v := most * float64(i) / 2
		fmt.Fprintf(out, `<line x1="%d" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#eee"/><text x="%d" y="%.1f" text-anchor="end" fill="#777">%s</text>`,
			left, w-right, y(v), y(v), left-5, y(v)+4, amount(v, unit))
	}
	gap := 2.5 * (to - from) / pointsOfAPanel
	at, row := 10.0, 0.0
	for i, c := range curves {
		color := palette[i%len(palette)]
		var d strings.Builder
		before := math.Inf(-1)
		for _, p := range c.points {
			if math.IsNaN(p.value) || math.IsInf(p.value, 0) {
				continue
			}
			command := "L"
			if p.time-before > gap {
				command = "M"
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", command, x(p.time), y(p.value))
			before = p.time
		}
		if d.Len() > 0 {
			fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linecap="round"/>`, d.String(), color)
		}
		if i >= legendEntries {
			continue
		}
		size := 26 + 6*float64(len(c.name))
		if at > 10 && at+size > w {
			at, row = 10, row+16
		}
		if row <= 16 {
			fmt.Fprintf(out, `<rect x="%.0f" y="%.0f" width="10" height="3" fill="%s"/><text x="%.0f" y="%.0f" font-size="11">%s</text>`,
				at, h-30+row-4, color, at+14, h-30+row, html.EscapeString(c.name))
		}
		at += size
	}
}

// scale returns the next round number that is not less.
func scale(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 4, 5, 10} {
		if v <= f*unit {
			return f * unit
		}
	}
	return 10 * unit
}

// amount writes a number in its unit.
func amount(v float64, unit string) string {
	switch {
	case unit == "percentunit":
		v, unit = 100*v, "%"
	case unit == "s" && v > 0 && v < 1:
		v, unit = 1000*v, " ms"
	case unit == "s":
		unit = " s"
	case unit == "short":
		unit = ""
	case unit != "":
		unit = "/s"
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

var variable = regexp.MustCompile(`{{(\w+)}}`)

// legend fills labels into a format; without one it names them all.
func legend(format string, labels map[string]string) string {
	if format == "" {
		var values []string
		for _, v := range labels {
			values = append(values, v)
		}
		slices.Sort(values)
		return strings.Join(values, " ")
	}
	return variable.ReplaceAllStringFunc(format, func(m string) string { return labels[strings.Trim(m, "{}")] })
}
