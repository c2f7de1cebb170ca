// Package plots draws the figures of a run.
package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// line is a curve with its name in the legend.
type line struct {
	name   string
	points plotter.XYs
	bars   plotter.YErrors // smallest and largest of the rounds, as distances from the point; or nil
	n      []int           // how many values are behind each point; nil where the name says it
	marks  bool            // a mark at each point
}

// panel is one coordinate system.
type panel struct {
	title string
	lines []line
}

// drawing is a figure: panels in a row or a grid, with the same axes.
type drawing struct {
	title, x, y string
	caption     []string // lines below: what the run was
	note        string   // what the points are; empty: medians, see behind
	each        string   // what each value behind a point is of; empty: rounds
	logX, logY  bool
	ticksX      []float64 // the only labels of the x axis
	minX, maxX  float64   // both 0: as the values are
	minY, maxY  float64   // the same
	panels      []panel
}

const (
	panelWidth    = 13 * vg.Centimeter
	panelHeight   = 9 * vg.Centimeter
	labelWidth    = 0.6 * vg.Centimeter
	titleHeight   = 1 * vg.Centimeter
	captionHeight = 0.42 * vg.Centimeter // of a line
)

// write writes folder/name.svg and folder/name.png.
func (d drawing) write(folder, name string) error {
	columns := min(len(d.panels), 2)
	rows := (len(d.panels) + columns - 1) / columns
	width, height := panelWidth*vg.Length(columns), panelHeight*vg.Length(rows)+titleHeight+d.captionHeight()
	svg := vgsvg.New(width, height)
	if err := d.draw(draw.New(svg), rows, columns); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(110), vgimg.UseBackgroundColor(color.White))}
	if err := d.draw(draw.New(png), rows, columns); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	for end, canvas := range map[string]io.WriterTo{".svg": svg, ".png": png} {
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
		text := b.Bytes()
		if end == ".svg" {
			text = darkened(text)
		}
		if err := os.WriteFile(filepath.Join(folder, name+end), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// darkened is an SVG that is dark where its reader prefers that: what is light becomes
// dark, and colours keep their hue.
func darkened(svg []byte) []byte {
	const style = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.9) hue-rotate(180deg) } }</style>\n"
	if i := bytes.Index(svg, []byte("<g ")); i >= 0 {
		return slices.Concat(svg[:i], []byte(style), svg[i:])
	}
	return svg
}

// draw draws the title and the panels.
func (d drawing) draw(c draw.Canvas, rows, columns int) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	style := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, 14), XAlign: draw.XCenter, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y - 3*vg.Millimeter}, d.title)
	style.Font.Size, style.XAlign, style.YAlign = 8.5, draw.XLeft, draw.YBottom
	for i, text := range d.caption {
		c.FillText(style, vg.Point{X: c.Min.X + 3*vg.Millimeter, Y: c.Min.Y + d.captionHeight() - (vg.Length(i)+1.2)*captionHeight}, text)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 4 * vg.Millimeter, PadY: 4 * vg.Millimeter,
		PadTop: 1 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadRight: 4 * vg.Millimeter}
	below := draw.Crop(c, 0, 0, d.captionHeight(), -titleHeight)
	plots := make([][]*plot.Plot, rows)
	for i := range rows {
		plots[i] = make([]*plot.Plot, columns)
	}
	legends := make([]plot.Legend, len(d.panels))
	for i, p := range d.panels {
		made, legend, err := d.plot(p)
		if err != nil {
			return err
		}
		plots[i/columns][i%columns], legends[i] = made, legend
	}
	canvases := plot.Align(plots, tiles, below)
	for i := range d.panels {
		row, column := i/columns, i%columns
		canvas := draw.Crop(canvases[row][column], labelWidth, 0, labelWidth, 0)
		p := plots[row][column]
		d.place(p, &legends[i], d.panels[i], canvas)
		p.Draw(canvas)
		data := p.DataCanvas(canvas)
		d.label(data, canvas)
		data.SetColor(color.NRGBA{R: 255, G: 255, B: 255, A: 215})
		data.Fill(box(&legends[i], data).Path())
		legends[i].Draw(data)
	}
	return nil
}

func (d drawing) captionHeight() vg.Length { return (vg.Length(len(d.caption)) + 0.5) * captionHeight }

// place puts the legend into the corner where it covers least of the curves. Where
// they are everywhere a logarithmic axis gets more room above them.
func (d drawing) place(p *plot.Plot, legend *plot.Legend, of panel, canvas draw.Canvas) {
	most := p.Y.Max
	for room := 0; ; room++ {
		best, left, top := math.MaxInt, true, true
		data := p.DataCanvas(canvas)
		for _, corner := range [][2]bool{{true, true}, {false, true}, {true, false}, {false, false}} {
			stand(legend, corner[0], corner[1])
			if n := covered(p, of, data, box(legend, data)); n < best {
				best, left, top = n, corner[0], corner[1]
			}
		}
		stand(legend, left, top)
		switch {
		case best == 0 || d.maxY != 0 || room == 6:
			return
		case d.logY:
			p.Y.Max = most * math.Pow(10, float64(room+1)/4)
		default:
			p.Y.Max = most * (1 + float64(room+1)/10)
		}
	}
}

// stand puts a legend into a corner, a little away from the axes.
func stand(legend *plot.Legend, left, top bool) {
	legend.Left, legend.Top = left, top
	legend.XOffs, legend.YOffs = vg.Points(-3), vg.Points(3)
	if left {
		legend.XOffs = vg.Points(3)
	}
	if top {
		legend.YOffs = vg.Points(-3)
	}
}

// box is where a legend is drawn. (The library's own answer is the other side.)
func box(legend *plot.Legend, data draw.Canvas) vg.Rectangle {
	size := legend.Rectangle(data).Size()
	r := data.Rectangle
	if legend.Left {
		r.Max.X = r.Min.X + size.X + 2*legend.XOffs
	} else {
		r.Min.X = r.Max.X - size.X + 2*legend.XOffs
	}
	if legend.Top {
		r.Min.Y = r.Max.Y - size.Y + 2*legend.YOffs
	} else {
		r.Max.Y = r.Min.Y + size.Y + 2*legend.YOffs
	}
	return r
}

// covered counts places of the curves that lie in a rectangle.
func covered(p *plot.Plot, of panel, data draw.Canvas, box vg.Rectangle) (n int) {
	x, y := p.Transforms(&data)
	for _, l := range of.lines {
		for i := range l.points {
			from, to := l.points[i], l.points[min(i+1, len(l.points)-1)]
			n += between(vg.Point{X: x(from.X), Y: y(from.Y)}, vg.Point{X: x(to.X), Y: y(to.Y)}, box)
			if l.bars != nil {
				n += between(vg.Point{X: x(from.X), Y: y(from.Y - l.bars[i].Low)}, vg.Point{X: x(from.X), Y: y(from.Y + l.bars[i].High)}, box)
			}
		}
	}
	return n
}

// between counts places between two points that lie in a rectangle.
func between(a, b vg.Point, box vg.Rectangle) (n int) {
	for k := range 20 {
		share := vg.Length(k) / 20
		at := vg.Point{X: a.X + share*(b.X-a.X), Y: a.Y + share*(b.Y-a.Y)}
		if at.X >= box.Min.X && at.X <= box.Max.X && at.Y >= box.Min.Y && at.Y <= box.Max.Y {
			n++
		}
	}
	return n
}

// label writes the names of the axes. (The library's own labels are measured as if
// every axis were linear: on a logarithmic one they take half of the panel.)
func (d drawing) label(data, whole draw.Canvas) {
	style := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, 11), XAlign: draw.XCenter, YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
	data.FillText(style, vg.Point{X: data.Center().X, Y: whole.Min.Y - labelWidth + vg.Millimeter}, named(d.x, d.logX))
	style.Rotation, style.YAlign = math.Pi/2, draw.YTop
	data.FillText(style, vg.Point{X: whole.Min.X - labelWidth, Y: data.Center().Y}, named(d.y, d.logY))
}

// named is the name of an axis.
func named(text string, log bool) string {
	if log {
		return text + " (log scale)"
	}
	return text
}

// plot makes a panel and, apart from it, its legend, which is drawn over it.
func (d drawing) plot(p panel) (out *plot.Plot, legend plot.Legend, err error) {
	out, legend = plot.New(), plot.NewLegend()
	legend.TextStyle.Font.Size = 8.5
	legend.Padding = vg.Points(2)
	out.Title.Text = p.title
	out.Title.TextStyle.Font.Size = 11
	out.Add(grid())
	for _, l := range p.lines {
		curve, err := plotter.NewLine(l.points)
		if err != nil {
			return nil, legend, err
		}
		look := lookOf(l.name)
		curve.LineStyle = draw.LineStyle{Color: look.color, Width: vg.Points(1.6), Dashes: look.dashes}
		out.Add(curve)
		if l.bars != nil {
			bars, err := plotter.NewYErrorBars(struct {
				plotter.XYs
				plotter.YErrors
			}{l.points, l.bars})
			if err != nil {
				return nil, legend, err
			}
			bars.LineStyle = draw.LineStyle{Color: look.color, Width: vg.Points(0.8)}
			bars.CapWidth = vg.Points(4)
			out.Add(bars)
		}
		if l.marks {
			marks, err := plotter.NewScatter(l.points)
			if err != nil {
				return nil, legend, err
			}
			marks.GlyphStyle = draw.GlyphStyle{Color: look.color, Radius: vg.Points(2.6), Shape: look.shape}
			out.Add(marks)
			legend.Add(l.name, curve, marks)
		} else {
			legend.Add(l.name, curve)
		}
	}
	if d.minX != 0 || d.maxX != 0 {
		out.X.Min, out.X.Max = d.minX, d.maxX
	}
	if d.minY != 0 || d.maxY != 0 {
		out.Y.Min, out.Y.Max = d.minY, d.maxY
	}
	d.scale(out)
	return out, legend, nil
}

// scale sets the axes.
func (d drawing) scale(p *plot.Plot) {
	if d.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if d.ticksX != nil {
		var ticks []plot.Tick
		for _, x := range d.ticksX {
			ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%.0f", x)})
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
	}
	if d.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		if d.maxY == 0 { // whole decades
			p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
			p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
		}
	} else if d.maxY == 0 {
		p.Y.Min = 0
	}
}
