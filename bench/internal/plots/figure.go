// Package plots draws the figures of a run.
package plots

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"

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
	marks  bool // a mark at each point
}

// panel is one coordinate system.
type panel struct {
	title string
	lines []line
}

// drawing is a figure: panels in a row or a grid, with the same axes.
type drawing struct {
	title, x, y string
	logX, logY  bool
	ticksX      []float64 // the only labels of the x axis
	minX, maxX  float64   // both 0: as the values are
	minY, maxY  float64   // the same
	panels      []panel
}

const (
	panelWidth  = 15 * vg.Centimeter // with its legend
	panelHeight = 8.5 * vg.Centimeter
	legendWidth = 4.2 * vg.Centimeter
	labelWidth  = 0.6 * vg.Centimeter
	titleHeight = 1 * vg.Centimeter
)

// write writes folder/name.svg and folder/name.png.
func (d drawing) write(folder, name string) error {
	columns := min(len(d.panels), 2)
	rows := (len(d.panels) + columns - 1) / columns
	width, height := panelWidth*vg.Length(columns), panelHeight*vg.Length(rows)+titleHeight
	svg := vgsvg.New(width, height)
	if err := d.draw(draw.New(svg), rows, columns); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(110), vgimg.UseBackgroundColor(color.White))}
	if err := d.draw(draw.New(png), rows, columns); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	for end, canvas := range map[string]io.WriterTo{".svg": svg, ".png": png} {
		f, err := os.Create(filepath.Join(folder, name+end))
		if err != nil {
			return err
		}
		if _, err = canvas.WriteTo(f); err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw draws the title and the panels.
func (d drawing) draw(c draw.Canvas, rows, columns int) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	style := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, 14), XAlign: draw.XCenter, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y - 3*vg.Millimeter}, d.title)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 4 * vg.Millimeter, PadY: 4 * vg.Millimeter,
		PadTop: 1 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadRight: 4 * vg.Millimeter}
	below := draw.Crop(c, 0, 0, 0, -titleHeight)
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
		canvas := draw.Crop(canvases[row][column], labelWidth, -legendWidth, labelWidth, 0)
		plots[row][column].Draw(canvas)
		d.label(plots[row][column].DataCanvas(canvas), canvas)
		tile := tiles.At(below, column, row)
		legends[i].Draw(draw.Crop(tile, tile.Size().X-legendWidth+2*vg.Millimeter, 0, 0, -8*vg.Millimeter))
	}
	return nil
}

// label writes the names of the axes. (The library's own labels are measured as if
// every axis were linear: on a logarithmic one they take half of the panel.)
func (d drawing) label(data, whole draw.Canvas) {
	style := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, 11), XAlign: draw.XCenter, YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
	data.FillText(style, vg.Point{X: data.Center().X, Y: whole.Min.Y - labelWidth + vg.Millimeter}, d.x)
	style.Rotation, style.YAlign = math.Pi/2, draw.YTop
	data.FillText(style, vg.Point{X: whole.Min.X - labelWidth, Y: data.Center().Y}, d.y)
}

// plot makes a panel and, apart from it, its legend, which is drawn beside it.
func (d drawing) plot(p panel) (out *plot.Plot, legend plot.Legend, err error) {
	out, legend = plot.New(), plot.NewLegend()
	legend.Top, legend.Left = true, true
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
