package plots

import (
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rowlock/rowlock/bench/internal/side"
)

// look is how a side is drawn, the same in every figure: the library in full lines
// and strong colours, the rest dashed.
type look struct {
	color  color.Color
	dashes []vg.Length
	shape  draw.GlyphDrawer
}

var dashed = []vg.Length{vg.Points(5), vg.Points(3)}

// The colours can be told apart by people who do not see red and green (Okabe and
// Ito).
var (
	black  = color.RGBA{A: 255}
	grey   = color.RGBA{R: 130, G: 130, B: 130, A: 255}
	blue   = color.RGBA{R: 0, G: 114, B: 178, A: 255}
	orange = color.RGBA{R: 213, G: 94, B: 0, A: 255}
	green  = color.RGBA{R: 0, G: 158, B: 115, A: 255}
	purple = color.RGBA{R: 204, G: 121, B: 167, A: 255}
	sky    = color.RGBA{R: 86, G: 180, B: 233, A: 255}
	amber  = color.RGBA{R: 230, G: 159, B: 0, A: 255}
	wine   = color.RGBA{R: 136, G: 34, B: 85, A: 255} // of Tol's, which go with them
)

var looks = map[string]look{
	side.Version:       {blue, nil, draw.CircleGlyph{}},
	side.Unique:        {orange, nil, draw.SquareGlyph{}},
	side.ForUpdate:     {green, nil, draw.PyramidGlyph{}},
	side.Mongo:         {wine, nil, draw.CircleGlyph{}},
	side.Guarded:       {purple, nil, draw.SquareGlyph{}},
	side.VersionProbes: {blue, dashed, draw.RingGlyph{}},
	side.UniqueProbes:  {orange, dashed, draw.BoxGlyph{}},
	side.Floor:         {black, dashed, draw.CrossGlyph{}},
	side.FloorInsert:   {grey, dashed, draw.PlusGlyph{}},
	side.SingleVersion: {sky, dashed, draw.RingGlyph{}},
	side.SingleUnique:  {amber, dashed, draw.BoxGlyph{}},
	side.SingleMongo:   {purple, dashed, draw.RingGlyph{}},
	side.Poller:        {amber, dashed, draw.CrossGlyph{}},
	side.GetLock:       {grey, dashed, draw.PlusGlyph{}},
}

// others are for the peers, in the order in which they come.
var others = []look{
	{blue, dashed, draw.CircleGlyph{}}, {sky, dashed, draw.RingGlyph{}}, {orange, dashed, draw.SquareGlyph{}},
	{amber, dashed, draw.BoxGlyph{}}, {green, dashed, draw.PyramidGlyph{}}, {purple, dashed, draw.CrossGlyph{}},
}

// second are the lines of a side that are dashed beside another of it.
var second = []string{"exclusive", "readers", "unfair"}

var given = map[string]look{}

func lookOf(name string) look {
	name, _, _ = strings.Cut(name, counted)
	if l, ok := looks[name]; ok {
		return l
	}
	// Two lines of one side.
	if of, what, ok := strings.Cut(name, ", "); ok {
		if l, ok := looks[of]; ok {
			if slices.Contains(second, what) {
				l.dashes = dashed
			}
			return l
		}
	}
	if _, ok := given[name]; !ok {
		given[name] = others[len(given)%len(others)]
	}
	return given[name]
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color = color.RGBA{R: 225, G: 225, B: 225, A: 255}
	g.Vertical.Color = g.Horizontal.Color
	return g
}

// decades are the marks of a logarithmic axis: labels at 1, 2 and 5 times the
// powers of ten where the axis is short, at the powers alone where it is long.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	few := math.Log10(most/least) < 2.2
	for power := math.Floor(math.Log10(least)); power <= math.Ceil(math.Log10(most)); power++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow(10, power)
			if v < least*0.999 || v > most*1.001 {
				continue
			}
			label := ""
			if digit == 1 || few && (digit == 2 || digit == 5) {
				label = short(v)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// short is 0.1, 20, 5k, 1M.
func short(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, "M"
	case v >= 1e3:
		v, unit = v/1e3, "k"
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}
