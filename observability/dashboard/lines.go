package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// addLines adds the lines of a panel. Each is interrupted where Prometheus had no value.
func (p panel) addLines(to *plot.Plot) error {
	most, least := 0.0, 0.0
	for i, s := range p.Series {
		for _, part := range s.parts() {
			for _, xy := range part {
				most, least = max(most, xy.Y), min(least, xy.Y)
			}
			if len(part) == 1 { // a moment
				part = append(part, plotter.XY{X: part[0].X + step.Seconds()/2, Y: part[0].Y})
			}
			line, err := plotter.NewLine(part)
			if err != nil {
				return err
			}
			line.LineStyle = look(i)
			to.Add(line)
		}
	}
	if p.Min != nil {
		least = *p.Min
	}
	if p.Max != nil {
		most = *p.Max
	}
	if most <= least {
		most = least + 1
	}
	marker := ticks(least, most, func(v float64) string { return inUnit(v, p.Unit) })
	to.Y.Tick.Marker = marker
	to.Y.Min, to.Y.Max = least, most+(most-least)*0.12 // room for the numbers of what happened
	return nil
}

// names are those of the legend.
func (p panel) names() (all []string) {
	if p.Type == "heatmap" {
		return []string{"few renewals", "", "", "", "many"}
	}
	for _, s := range p.Series {
		all = append(all, s.Name)
	}
	return all
}

// parts are the points without those that a straight line has anyway.
func (s series) parts() (all []plotter.XYs) {
	var part plotter.XYs
	for i, p := range s.Points {
		if i > 0 && p[0]-s.Points[i-1][0] > 1.5*step.Seconds() {
			all, part = append(all, part), nil
		}
		if n := len(part); n > 1 && part[n-1].Y == p[1] && part[n-2].Y == p[1] {
			part[n-1].X = p[0]
			continue
		}
		part = append(part, plotter.XY{X: p[0], Y: p[1]})
	}
	if len(part) > 0 {
		all = append(all, part)
	}
	return all
}

// happening marks when something was done.
type happening []event

// Plot implements plot.Plotter.
func (h happening) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for i, e := range h {
		if e.To > 0 {
			c.SetColor(shade)
			c.Fill(vg.Rectangle{Min: vg.Point{X: x(e.From), Y: c.Min.Y}, Max: vg.Point{X: x(e.To), Y: c.Max.Y}}.Path())
		}
		c.StrokeLine2(draw.LineStyle{Color: marks, Width: vg.Points(0.5), Dashes: []vg.Length{vg.Points(1), vg.Points(2)}}, x(e.From), c.Min.Y, x(e.From), c.Max.Y)
		c.FillText(style(7, ink), vg.Point{X: x(e.From) + vg.Points(1.5), Y: c.Max.Y}, strconv.Itoa(i+1))
	}
}

func gridLines() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = lines, nil
	return g
}

// ticks are about four, with labels.
func ticks(least, most float64, label func(float64) string) plot.ConstantTicks {
	size := math.Pow(10, math.Floor(math.Log10((most-least)/3)))
	for _, times := range []float64{5, 3, 2} { // 3 for seconds of a minute
		if (most-least)/(times*size) >= 2.5 && (times != 3 || size == 10) {
			size *= times
			break
		}
	}
	var all plot.ConstantTicks
	for i := math.Ceil(least/size - 1e-9); i*size <= most*1.001; i++ {
		v := i*size + 0 // no negative zero
		all = append(all, plot.Tick{Value: v, Label: label(v)})
	}
	return all
}

// unitName is what Grafana's name of a unit says.
func unitName(unit string) string {
	switch unit {
	case "s":
		return "time"
	case "ops":
		return "per second"
	case "percentunit":
		return "share"
	case "short", "":
		return "number"
	}
	return unit
}

// inUnit writes a value.
func inUnit(v float64, unit string) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch {
	case unit == "percentunit":
		return number(v*100) + " %"
	case unit == "s" && v >= 120:
		return number(v/60) + " min"
	case unit == "s" && v != 0 && v < 1:
		return number(v*1000) + " ms"
	case unit == "s":
		return number(v) + " s"
	case unit == "ops":
		return number(v) + "/s"
	}
	return number(v)
}

// addHeat adds the cells of a heatmap: its series are the buckets of a histogram, each with those below it, by their
// upper bounds. Prometheus answers for every second about the last ten; a cell is as wide as that.
func (p panel) addHeat(to *plot.Plot) error {
	type bucket struct {
		bound float64
		label string
		at    map[int]float64
	}
	var all []bucket
	for _, s := range p.Series {
		bound, err := strconv.ParseFloat(s.Name, 64)
		if err != nil {
			return fmt.Errorf("the bucket %q: %w", s.Name, err)
		}
		b := bucket{bound, inUnit(bound, p.Unit), make(map[int]float64)}
		if math.IsInf(bound, 1) {
			b.label = "more"
		}
		for _, point := range s.Points {
			if t := int(math.Round(point[0])); t%int(rate.Seconds()) == 0 {
				b.at[t] = point[1]
			}
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b bucket) int { return int(math.Copysign(1, a.bound-b.bound)) })
	h := cells{}
	var marker plot.ConstantTicks
	for i, b := range all {
		if i%2 == 0 || i == len(all)-1 {
			marker = append(marker, plot.Tick{Value: float64(i) + 0.5, Label: strings.TrimSpace(b.label)})
		}
		for t, v := range b.at {
			if i > 0 {
				v -= all[i-1].at[t]
			}
			if v > 0.01 {
				h.all = append(h.all, cell{float64(t), i, v})
				h.most = max(h.most, v)
			}
		}
	}
	slices.SortFunc(h.all, func(a, b cell) int { return int(a.at) - int(b.at) + 1000*(a.row-b.row) })
	to.Add(h)
	to.Y.Min, to.Y.Max, to.Y.Tick.Marker = 0, float64(len(all))*1.12, marker
	return nil
}

// cell is a bucket of a heatmap, for the time until at.
type cell struct {
	at    float64
	row   int
	value float64
}

type cells struct {
	all  []cell
	most float64
}

// Plot implements plot.Plotter.
func (h cells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, one := range h.all {
		c.SetColor(heat(one.value / h.most))
		from := max(x(one.at-rate.Seconds()), c.Min.X)
		c.Fill(vg.Rectangle{
			Min: vg.Point{X: from, Y: y(float64(one.row)) + vg.Points(0.3)}, Max: vg.Point{X: x(one.at) - vg.Points(0.3), Y: y(float64(one.row + 1))},
		}.Path())
	}
}

// heat is a blue that is the darker the larger the share.
func heat(share float64) color.RGBA {
	share = 0.15 + 0.85*math.Sqrt(share)
	mix := func(from, to float64) uint8 { return uint8(from + (to-from)*share) }
	return color.RGBA{R: mix(240, 0), G: mix(246, 70), B: mix(252, 140), A: 255}
}
